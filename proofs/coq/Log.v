(* The sliding log: at most N in any window of a period, by counting. The log is a model, written by hand: N slots, of which
   each has the tick of its last charge; a charge takes the oldest one, if its tick is a period ago, and is not before the
   newest. tests/rate/reference compares the code with another naive log on random calls, and Random.v
   the number of charges after a change in proportion. *)
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

(* Changes of the quota that keep the spent number. The charges stay at their ticks. Each charge may be under another quota,
   and takes the oldest of its slots, so the log then forgets the charge there; it keeps older ones, for a longer log. *)
Fixpoint without (k : nat) (l : list Z) : list Z :=
  match l, k with [], _ => [] | _ :: l, O => l | v :: l, S k => v :: without k l end.
(* The newest first. *)
Fixpoint falling (l : list Z) : Prop :=
  match l with [] => True | t :: l => (forall u, In u l -> u <= t) /\ falling l end.
(* The charges since some moment, and those that the log knows: at that moment those before. No quota has more slots than
   `most`, or a period below `shortest`. *)
Inductive since (most : nat) (shortest : Z) (before : list Z) : list Z -> list Z -> Prop :=
  | AtFirst : falling before -> since most shortest before [] before
  | OneSince : forall l known n period t, since most shortest before l known -> (1 <= n <= most)%nat -> shortest <= period ->
      (forall u, In u (l ++ before) -> u <= t) -> (forall u, nth_error known (n - 1) = Some u -> u + period <= t) ->
      since most shortest before (t :: l) (t :: without (n - 1) known).

(* Nothing is known that was not made. *)
Lemma less_is_there : forall k l u, In u (without k l) -> In u l.
Proof.
  induction k as [|k IH]; intros [|v l] u H; cbn in *; try tauto. destruct H as [H|H]; [left; exact H|right; exact (IH l u H)].
Qed.
(* The rest is still falling. *)
Lemma less_is_falling : forall k l, falling l -> falling (without k l).
Proof.
  induction k as [|k IH]; intros [|v l] H; cbn in *; try tauto. destruct H as (H1 & H2). split; [|exact (IH l H2)].
  intros u I. apply H1. exact (less_is_there k l u I).
Qed.
(* In a falling list, those from some place on are at most that one. *)
Lemma those_after : forall l k u v, falling l -> nth_error l k = Some u -> In v (skipn k l) -> v <= u.
Proof.
  induction l as [|t l IH]; intros [|k] u v F N I; cbn in *; try discriminate.
  - inversion N; subst. destruct I as [I|I]; [lia|exact (proj1 F v I)].
  - exact (IH k u v (proj2 F) N I).
Qed.
(* One that is older than the window is not missed. *)
Lemma older_is_not_missed : forall period s k l, (forall u, nth_error l k = Some u -> u < s) ->
  count period s (without k l) = count period s l.
Proof.
  intros period s. induction k as [|k IH]; intros [|v l] H; cbn [without]; try reflexivity; unfold count in *; cbn [filter].
  - replace (within period s v) with false; [reflexivity|]. symmetry. unfold within. specialize (H v eq_refl).
    apply andb_false_iff. left. apply Z.leb_gt. lia.
  - assert (E : length (filter (within period s) (without k l)) = length (filter (within period s) l)) by (apply IH; exact H).
    destruct (within period s v); cbn [length]; rewrite E; reflexivity.
Qed.
(* What a log knows falls, was made, and has all charges of a window that has not ended. *)
Lemma what_is_known : forall most shortest before l known, since most shortest before l known ->
  falling known /\ (forall u, In u known -> In u (l ++ before)) /\
  forall s, (forall u, In u (l ++ before) -> u < s + shortest) -> count shortest s (l ++ before) = count shortest s known.
Proof.
  intros most shortest before l known H. induction H as [F|l known n period t H IH Hn Hp Le Free].
  - split; [exact F|]. split; [intros u I; exact I|]. intros s _. reflexivity.
  - destruct IH as (F & There & Same). split; [|split].
    + cbn. split; [|apply less_is_falling; exact F]. intros u I. apply Le, There. exact (less_is_there _ _ u I).
    + intros u [I|I]; [left; exact I|right; apply There; exact (less_is_there _ _ u I)].
    + intros s In_. assert (T : t < s + shortest) by (apply In_; left; reflexivity).
      assert (E : count shortest s (without (n - 1) known) = count shortest s (l ++ before)).
      { rewrite older_is_not_missed; [symmetry; apply Same; intros u I; apply In_; right; exact I|].
        intros u N. specialize (Free u N). lia. }
      unfold count in *. cbn [app filter]. destruct (within shortest s t); cbn [length]; rewrite E; reflexivity.
Qed.
(* Among the known ones, fewer than n are within a window, if the n-th is before it. *)
Lemma fewer_are_known : forall period s n l, (1 <= n)%nat -> falling l -> (forall u, nth_error l (n - 1) = Some u -> u < s) ->
  (count period s l <= n - 1)%nat.
Proof.
  intros period s n l Hn F H. rewrite (count_of_parts period s (n - 1) l).
  pose proof (count_is_at_most_all period s (firstn (n - 1) l)) as B. rewrite firstn_length in B.
  rewrite (none_within period s (skipn (n - 1) l)); [lia|]. intros v I. destruct (nth_error l (n - 1)) as [u|] eqn:N.
  - pose proof (those_after l (n - 1) u v F N I). specialize (H u eq_refl). lia.
  - apply nth_error_None in N. rewrite skipn_all2 in I by exact N. destruct I.
Qed.
(* After a change, a period that has a charge since has at most the new count, with the calls from before the change whose
   times the log still has. *)
Theorem at_most_the_new_count : forall most shortest before l known s, since most shortest before l known ->
  (exists t, In t l /\ within shortest s t = true) -> (count shortest s (l ++ before) <= most)%nat.
Proof.
  intros most shortest before l known s H. induction H as [F|l known n period t H IH Hn Hp Le Free]; intros (u & I & W).
  - destruct I.
  - destruct (what_is_known _ _ _ _ _ H) as (F & _ & Same). unfold count at 1. cbn [app filter].
    destruct (within shortest s t) eqn:Wt.
    + unfold within in Wt. apply andb_true_iff in Wt. destruct Wt as (_ & Wt). apply Z.ltb_lt in Wt. cbn [length].
      fold (count shortest s (l ++ before)). rewrite Same by (intros v Iv; specialize (Le v Iv); lia).
      pose proof (fewer_are_known shortest s n known ltac:(lia) F) as B.
      assert (O : forall v, nth_error known (n - 1) = Some v -> v < s) by (intros v N; specialize (Free v N); lia).
      specialize (B O). lia.
    + fold (count shortest s (l ++ before)). apply IH. exists u. destruct I as [I|I]; [congruence|]. split; assumption.
Qed.
(* Any changes that keep the spent number admit at most the largest count in any of the shortest periods. *)
Theorem changes_of_a_log : forall most shortest l known s, since most shortest [] l known -> (count shortest s l <= most)%nat.
Proof.
  intros most shortest l known s H. pose proof (at_most_the_new_count most shortest [] l known s H) as B.
  rewrite app_nil_r in B. destruct (Nat.eq_dec (count shortest s l) 0) as [E|E]; [lia|]. apply B.
  unfold count in E. destruct (filter (within shortest s) l) as [|t m] eqn:Fl; [cbn in E; lia|].
  exists t. apply filter_In. rewrite Fl. left. reflexivity.
Qed.

(* A change in proportion: how many charges are kept or repeated (`scaled` in src/algorithm/sliding_log.rs), and how many of
   them are ahead, of `made` that count and `ahead` that wait for a slot. *)
Definition scaled_log (made ahead old new : Z) : Z * Z :=
  let used := made + ahead in let kept := (used * new + old - 1) / old in
  if kept <=? used then let past := Z.min made (used - kept) in (made - past, ahead - (used - kept - past))
  else let later := (ahead * kept + used - 1) / used in (Z.min (kept - later) new, later).
(* The free part of the count never rises: either all slots are taken, or the spent part is at least the same. *)
Theorem a_log_in_proportion_raises_nothing : forall made ahead old new made' ahead', 0 <= made -> 0 <= ahead -> 1 <= old ->
  1 <= new -> scaled_log made ahead old new = (made', ahead') -> (made + ahead) * new <= (made' + ahead') * old \/ new <= made'.
Proof.
  intros made ahead old new made' ahead' Hm Ha Ho Hn E. unfold scaled_log in E. cbv zeta in E.
  set (used := made + ahead) in *. set (kept := (used * new + old - 1) / old) in *.
  assert (K : used * new <= kept * old).
  { pose proof (Z.div_mod (used * new + old - 1) old ltac:(lia)) as D.
    pose proof (Z.mod_pos_bound (used * new + old - 1) old ltac:(lia)) as M. fold kept in D. lia. }
  destruct (kept <=? used) eqn:L; inversion E; subst.
  - left. apply Z.leb_le in L. replace (made - _ + _) with kept by (unfold used; lia). exact K.
  - set (later := (ahead * kept + used - 1) / used) in *. destruct (Z_le_gt_dec new (kept - later)) as [G|G]; [right; lia|].
    left. rewrite Z.min_l by lia. replace (kept - later + later) with kept by ring. exact K.
Qed.
Print Assumptions changes_of_a_log.
