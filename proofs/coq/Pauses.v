(* A pause admits nothing, over the functions as the compiler has them: whatever the rule says, a call that is decided with
   the lock, a waiter that is granted, and a reservation, which is one of both, has its tick at the end of the pause or later.
   The rule is any: its due tick may be any number, so this is about each algorithm. What calls these functions is written by
   hand here (`change`, `admitted_at`). A decision without the lock is not made during a pause, and not by an earlier clock: that is
   `a pause admits nothing` in proofs/z3/limiter_word.py. *)
Require Import ZArith Lia Bool QArith.
Require Import Machine Code Arithmetic Params Gcra Batches Changes Steps.
Open Scope Z_scope.

(* The last tick, which is never reached. *)
Definition never := 2 ^ 64 - 1.

(* `end_of_pause`: the later one of the present end and the asked one, if that is still to come; an end after the last tick of
   a limiter is never. *)
Theorem end_of_pause_is_exact : forall present until now, until <= never -> exists e, end_of_pause present until now = Some e /\
  (e = present \/ (now < until /\ present < until <= e)) /\ (now < until -> until <= e) /\ present <= e.
Proof.
  intros present until now Hu. unfold end_of_pause, tick_as_nanos, tick_or_never, tick_from_nanos, never in *. cbv zeta.
  cbn [bind]. destruct (now <? until) eqn:E1; cbn [negb].
  - apply Z.ltb_lt in E1. destruct (present <? until) eqn:E2; cbn [negb].
    + apply Z.ltb_lt in E2. change LAST_TICK with (Some last_tick). cbn [bind].
      destruct (last_tick <? until); cbn [negb greatest u64 bind]; eexists; (split; [reflexivity|]); lia.
    + apply Z.ltb_ge in E2. eexists. split; [reflexivity|]. lia.
  - apply Z.ltb_ge in E1. eexists. split; [reflexivity|]. lia.
Qed.
(* `has_ended`: at the end of the pause, and from then on. *)
Theorem has_ended_is_exact : forall e now, has_ended e now = Some (e <=? now).
Proof. reflexivity. Qed.
(* `not_before`: the due tick, or the end of the pause if that is later. *)
Theorem not_before_is_the_later : forall due e, not_before due e = Some (Z.max due e).
Proof.
  intros due e. unfold not_before, tick_as_nanos. cbv zeta. cbn [bind].
  destruct (due <? e) eqn:E; cbn [negb]; f_equal; [apply Z.ltb_lt in E|apply Z.ltb_ge in E]; lia.
Qed.
(* `Tick::has_come`: at most now, and not never. *)
Theorem has_come_is_exact : forall due now, due <= never -> tick_has_come due now = Some ((due <=? now) && (due <? never)).
Proof.
  intros due now H. unfold tick_has_come, tick_is_never, never in *. cbv zeta. cbn [bind greatest u64].
  destruct (due <=? now); cbn [negb andb]; [|reflexivity]. f_equal.
  destruct (Z.eqb_spec due 18446744073709551615) as [E|E]; cbn [negb]; symmetry; [apply Z.ltb_ge|apply Z.ltb_lt]; lia.
Qed.
(* `granted_at`: a waiter that has become due is charged between its due tick and now. *)
Theorem granted_at_is_exact : forall due earliest now, granted_at due earliest now = Some (Z.min now (Z.max due earliest)).
Proof.
  intros due earliest now. unfold granted_at, tick_as_nanos. rewrite not_before_is_the_later. cbn [bind]. cbv zeta.
  destruct (now <? Z.max due earliest) eqn:E; cbn [negb]; f_equal; [apply Z.ltb_lt in E|apply Z.ltb_ge in E]; lia.
Qed.

(* A call that is admitted with the lock: the rule has it due at any tick, and it has come, not before the end of the pause.
   It is charged now, or as a waiter: at the tick when it became due or later. *)
Definition decided (e t : Z) := exists rule due now, not_before rule e = Some due /\ due <= never /\
  tick_has_come due now = Some true /\ (t = now \/ exists earliest, granted_at due earliest now = Some t).
(* Its tick is not before the end of the pause. *)
Theorem decided_after_the_end : forall e t, decided e t -> e <= t.
Proof.
  intros e t (rule & due & now & N & Hd & C & T). rewrite not_before_is_the_later in N. inversion N as [E]. clear N.
  rewrite has_come_is_exact in C by lia. assert (D : (due <=? now) && (due <? never) = true) by congruence.
  apply andb_true_iff in D. destruct D as (D & _). apply Z.leb_le in D.
  destruct T as [T|(earliest & T)]; [lia|]. rewrite granted_at_is_exact in T. inversion T. lia.
Qed.

(* A limiter: the end of its last pause, whether that goes on, and the tick at which it was over. *)
Record limiter := { ends_at : Z; paused : bool; over : Z }.
(* `Ledger::pause`: a longer pause begins, or nothing changes. *)
Definition after_pause (l : limiter) (e : Z) :=
  if e =? ends_at l then l else {| ends_at := e; paused := true; over := over l |}.
(* What ends no pause early: a request to pause, and `Ledger::end_pause` at the tick of a holder of the lock. *)
Inductive change : limiter -> limiter -> Prop :=
  | Pauses : forall l until now e, until <= never -> end_of_pause (ends_at l) until now = Some e -> change l (after_pause l e)
  | Ends : forall l now, paused l = true -> has_ended (ends_at l) now = Some true ->
      change l {| ends_at := ends_at l; paused := false; over := now |}.
(* Admissions, at a tick, with the lock or without it. *)
Inductive admitted_at (l : limiter) (t : Z) : Prop :=
  | WithLock : decided (ends_at l) t -> admitted_at l t
  | WithoutLock : paused l = false -> over l <= t -> admitted_at l t.
(* The states of a limiter, also after a resume, which ends the pause now. *)
Inductive history : limiter -> Prop :=
  | New : history {| ends_at := 0; paused := false; over := 0 |}
  | Changed : forall l m, history l -> change l m -> history m
  | Resumed : forall l now, history l -> paused l = true -> history {| ends_at := now; paused := false; over := now |}.
(* Some changes, and no resume. *)
Inductive goes_on : limiter -> limiter -> Prop :=
  | Stays : forall l, goes_on l l
  | Goes : forall l m n, goes_on l m -> change m n -> goes_on l n.

(* A pause that does not go on is over. *)
Definition consistent (l : limiter) := paused l = true \/ ends_at l <= over l.
(* Each change keeps that, and no change moves the end to an earlier tick. *)
Lemma change_keeps : forall l m, consistent l -> change l m -> consistent m /\ ends_at l <= ends_at m.
Proof.
  intros l m C H. destruct H as [l until now e Hu E|l now P E]; unfold consistent, after_pause in *.
  - destruct (end_of_pause_is_exact (ends_at l) until now Hu) as (e' & E' & _ & _ & Le). assert (e' = e) by congruence. subst e'.
    destruct (e =? ends_at l); [split; [exact C|lia]|]. cbn [ends_at paused over]. tauto.
  - cbn [ends_at paused over]. rewrite has_ended_is_exact in E. assert (D : (ends_at l <=? now) = true) by congruence.
    apply Z.leb_le in D. lia.
Qed.
(* It holds for each limiter. *)
Lemma history_is_consistent : forall l, history l -> consistent l.
Proof.
  intros l H. induction H as [|l m H IH C|l now H IH P].
  - right. cbn. lia.
  - apply (change_keeps l m IH C).
  - right. cbn. lia.
Qed.
(* Until a resume, the end of a pause moves to no earlier tick. *)
Lemma the_end_stays : forall l m, consistent l -> goes_on l m -> consistent m /\ ends_at l <= ends_at m.
Proof.
  intros l m C H. induction H as [l|l m n H IH Ch]; [split; [exact C|lia]|]. destruct (IH C) as (C' & Le).
  destruct (change_keeps m n C' Ch) as (C'' & Le'). split; [exact C''|lia].
Qed.
(* Nothing is admitted at a tick before the end of a pause. *)
Lemma admitted_after_the_end : forall l t, consistent l -> admitted_at l t -> ends_at l <= t.
Proof. intros l t C [D|P Le]; [apply decided_after_the_end; exact D|]. destruct C as [C|C]; [congruence|lia]. Qed.

(* The promise: after a request to pause until a later tick, and unless there is a resume, no call is admitted at a tick
   before that one, whatever else is asked, and whatever the rule. *)
Theorem a_pause_admits_nothing : forall l until now e m t, history l -> until <= never -> now < until ->
  end_of_pause (ends_at l) until now = Some e -> goes_on (after_pause l e) m -> admitted_at m t -> until <= t.
Proof.
  intros l until now e m t H Hu Hn E G A. pose proof (history_is_consistent l H) as C.
  destruct (change_keeps l _ C (Pauses l until now e Hu E)) as (C' & _). destruct (the_end_stays _ m C' G) as (C'' & Le).
  pose proof (admitted_after_the_end m t C'' A) as T.
  destruct (end_of_pause_is_exact (ends_at l) until now Hu) as (e' & E' & _ & L & _). assert (e' = e) by congruence. subst e'.
  specialize (L Hn). unfold after_pause in Le. destruct (Z.eqb_spec e (ends_at l)) as [Eq|Ne]; cbn [ends_at] in Le; lia.
Qed.

(* The same for the events of any world, in the order of the lock and of exchanges: `number` is what it has admitted at ticks
   from t1 to t2, and only an admission raises that. *)
Inductive happens {world : Type} (event : world -> world -> Prop) (number : world -> Q) (t1 t2 : Z) :
    limiter * world -> limiter * world -> Prop :=
  | Nothing : forall s, happens event number t1 t2 s s
  | OfLimiter : forall s l w m, happens event number t1 t2 s (l, w) -> change l m -> happens event number t1 t2 s (m, w)
  | OfWorld : forall s l w x, happens event number t1 t2 s (l, w) -> event w x ->
      ((number w < number x)%Q -> exists t, t1 <= t <= t2 /\ admitted_at l t) -> happens event number t1 t2 s (l, x).
(* Such a world admits nothing between two ticks before the end of the pause. *)
Theorem nothing_is_admitted_in_a_pause : forall world (event : world -> world -> Prop) number t1 t2 l until now e m w x,
  history l -> until <= never -> now < until -> end_of_pause (ends_at l) until now = Some e -> t2 < until ->
  (number w <= 0)%Q -> happens event number t1 t2 (after_pause l e, w) (m, x) -> (number x <= 0)%Q.
Proof.
  intros world event number t1 t2 l until now e m w x H Hu Hn E Short N R.
  assert (K : goes_on (after_pause l e) m /\ (number x <= 0)%Q); [|apply K].
  remember (after_pause l e, w) as s eqn:Es. remember (m, x) as u eqn:Eu. revert m x Eu.
  induction R as [s|s l' w' m' R IH C|s l' w' x' R IH Ev Ad]; intros m x Eu.
  - subst s. inversion Eu. subst. split; [constructor|exact N].
  - inversion Eu. subst. destruct (IH eq_refl l' x eq_refl) as (G & Le). split; [econstructor; eassumption|exact Le].
  - inversion Eu. subst. destruct (IH eq_refl m w' eq_refl) as (G & Le). split; [exact G|].
    destruct (Qlt_le_dec 0 (number x)) as [P|P]; [|exact P].
    destruct (Ad (Qle_lt_trans _ _ _ Le P)) as (t & Ht & A).
    pose proof (a_pause_admits_nothing l until now e m t H Hu Hn E G A). lia.
Qed.
(* The default algorithm under one quota, with forced charges and refunds. *)
Definition a_pause_of_one_quota a b tolerance :=
  nothing_is_admitted_in_a_pause state (step a b tolerance) (fun s => inject_Z (admitted s)).
(* The default algorithm, with changes of the quota. *)
Definition a_pause_beside_changes t1 t2 :=
  nothing_is_admitted_in_a_pause world (event t1 t2) taken t1 t2.
(* Token buckets, fixed windows and sub-intervals, with changes of the quota. *)
Definition a_pause_of_steps t1 t2 :=
  nothing_is_admitted_in_a_pause steps (steps_event t1 t2) (fun w => inject_Z (admits w)) t1 t2.
Print Assumptions a_pause_admits_nothing.
Print Assumptions nothing_is_admitted_in_a_pause.
