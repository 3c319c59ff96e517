(* The sliding log: at most N in any window of a period, by counting. The log is a model, written by hand: N slots, of which
   each has the tick of its last charge; a charge takes the oldest one, if its tick is a period ago, and is not before the
   newest. tests/rate/reference compares the code with another naive log on random calls. *)
Require Import ZArith Lia Bool List.
Import ListNotations.
Open Scope Z_scope.

(* The ticks of the charges, the newest first. Of n slots, the oldest has the n-th charge before this one. *)
Inductive is_log (n : nat) (period : Z) : list Z -> Prop :=
  | NoCharge : is_log n period []
  | OneCharge : forall l t, is_log n period l -> (forall u, In u l -> u <= t) ->
      (forall u, nth_error l (n - 1) = Some u -> u + period <= t) -> is_log n period (t :: l).

(* Those at ticks from s on, for a period. *)
Definition within (period s t : Z) : bool := (s <=? t) && (t <? s + period).
Definition count (period s : Z) (l : list Z) : nat := length (filter (within period s) l).

(* The ticks fall along the list, so all charges from some place on are at most that one. *)
Lemma older_ones : forall n period l k u v, is_log n period l -> nth_error l k = Some u -> In v (skipn k l) -> v <= u.
Proof.
  intros n period l k u v H. revert k. induction H as [|l t H IH Le Free]; intros k N I.
  - destruct k; discriminate.
  - destruct k as [|k]; cbn in *; [|exact (IH k N I)]. inversion N; subst. destruct I as [I|I]; [lia|exact (Le v I)].
Qed.
(* A list without one in the window. *)
Lemma none_within : forall period s l, (forall v, In v l -> v < s) -> count period s l = 0%nat.
Proof.
  intros period s l H. unfold count. induction l as [|v l IH]; cbn [filter]; [reflexivity|].
  replace (within period s v) with false; [apply IH; intros w I; apply H; right; exact I|].
  symmetry. unfold within. specialize (H v (or_introl eq_refl)). apply andb_false_iff. left. apply Z.leb_gt. lia.
Qed.
(* The calls of a window are those of a first part and those of the rest. *)
Lemma count_of_parts : forall period s k l, count period s l = (count period s (firstn k l) + count period s (skipn k l))%nat.
Proof.
  intros period s k l. unfold count. rewrite <- (firstn_skipn k l) at 1. rewrite filter_app, app_length. reflexivity.
Qed.
(* A window has at most all calls. *)
Lemma count_is_at_most_all : forall period s l, (count period s l <= length l)%nat.
Proof.
  intros period s l. unfold count. induction l as [|v l IH]; cbn [filter length]; [lia|].
  destruct (within period s v); cbn [length]; lia.
Qed.

(* At most n in any window of a period. *)
Theorem at_most_n_in_any_window : forall n period l s, (1 <= n)%nat -> is_log n period l -> (count period s l <= n)%nat.
Proof.
  intros n period l s Hn H. induction H as [|l t H IH Le Free]; [cbn; lia|]. unfold count in *. cbn [filter].
  destruct (within period s t) eqn:W; [|exact IH]. cbn [length]. fold (count period s l). clear IH.
  unfold within in W. apply andb_true_iff in W. destruct W as (_ & W). apply Z.ltb_lt in W.
  rewrite (count_of_parts period s (n - 1) l).
  pose proof (count_is_at_most_all period s (firstn (n - 1) l)) as F. rewrite firstn_length in F.
  rewrite (none_within period s (skipn (n - 1) l)); [lia|]. intros v I.
  destruct (nth_error l (n - 1)) as [u|] eqn:N.
  - pose proof (older_ones n period l (n - 1) u v H N I). specialize (Free u eq_refl). lia.
  - apply nth_error_None in N. rewrite skipn_all2 in I by exact N. destruct I.
Qed.
Print Assumptions at_most_n_in_any_window.
