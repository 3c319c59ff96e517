(* Which rule a quota and an algorithm get: `Quota::checked`, `Algorithm::check` and `Promise`, and the bounds that follow for
   each algorithm. The three are a model, written by hand; random inputs compare them with the compiled ones (Random.v). All
   that they let pass meets the premises of the theorems about `new` and `stepped`. *)
Require Import ZArith Lia Bool.
Require Import Machine Code Arithmetic Params Gcra Batches.
Open Scope Z_scope.

(* `Quota::checked`: the quota is accepted. *)
Definition is_accepted (c p b : Z) : bool :=
  (1 <=? c) && (1 <=? p) && (p <? 2 ^ 64) && (1 <=? b) && (c <=? 16 * p) && ((c <? 2 * p) || (b <=? 2 ^ 56)) &&
  (b * p <=? 2 ^ 58 * c).
(* So the premise of all theorems about a quota is that it was accepted. *)
Theorem accepted_is_valid : forall c p b, c < 2 ^ 64 -> is_accepted c p b = true <-> is_valid c p b.
Proof.
  intros c p b H. unfold is_accepted, is_valid. rewrite !andb_true_iff, orb_true_iff, !Z.leb_le, !Z.ltb_lt. lia.
Qed.

Inductive algorithm := Even | TokenBucket | FixedWindow | SlidingWindow | SlidingLog | SubInterval (parts : Z).

(* `Algorithm::check`, of a quota with a limit. *)
Definition fits (a : algorithm) (c p b : Z) : bool :=
  match a with
  | Even => true
  | TokenBucket => (p <=? 2 ^ 58) && (c <=? p)
  | FixedWindow => (p <=? 2 ^ 58) && (c <=? p) && ((b =? 1) || (b =? c))
  | SlidingWindow => (p <=? 2 ^ 58) && (c <=? p) && ((b =? 1) || (b =? c)) && (c <=? 2 ^ 47)
  | SlidingLog => (p <=? 2 ^ 58) && (c <=? p) && ((b =? 1) || (b =? c)) && (c <=? 2 ^ 28)
  | SubInterval parts => (p <=? 2 ^ 58) && (c <=? p) && ((b =? 1) || (b =? c)) && (1 <=? parts) && (parts <? c)
  end.

(* `Promise::batch`: the count, the period and the burst. *)
Definition batch_of (a : algorithm) (c p b : Z) : Z * Z * Z :=
  match a with
  | Even => (c, p, b)
  | TokenBucket => if b =? 1 then (c, p, c) else if b <? c then (b, p, b) else (c, p, b)
  | FixedWindow | SlidingWindow | SlidingLog => (c, p, c)
  | SubInterval parts => (c / (parts + 1), (p + parts - 1) / parts, c / (parts + 1))
  end.

(* The batch of sub-intervals. *)
Lemma parts_of : forall c p parts, 1 <= parts < c -> c <= p ->
  1 <= c / (parts + 1) <= (p + parts - 1) / parts /\ (parts + 1) * (c / (parts + 1)) <= c /\
  p <= parts * ((p + parts - 1) / parts) /\ (p + parts - 1) / parts <= p.
Proof.
  intros c p parts Hk Hc. pose proof (Z.mul_div_le c (parts + 1) ltac:(lia)) as M.
  pose proof (ceil_spec p parts ltac:(lia)) as S.
  assert (E : 1 <= c / (parts + 1)) by (apply Z.div_le_lower_bound; lia).
  set (each := c / (parts + 1)) in *. set (part := (p + parts - 1) / parts) in *.
  assert (L : each <= part).
  { apply Z.mul_le_mono_pos_l with parts; [lia|]. assert (parts * each <= (parts + 1) * each) by (apply Z.mul_le_mono_nonneg_r; lia).
    lia. }
  assert (U : part <= p).
  { apply Z.lt_succ_r. apply Z.div_lt_upper_bound; [lia|].
    assert (1 * p <= parts * p) by (apply Z.mul_le_mono_nonneg_r; lia).
    assert (p + parts - 1 < parts * (p + 1)); [|lia]. lia. }
  lia.
Qed.

(* A batch is a quota that is accepted, so `Promise` never panics; and it is one of steps, of which each is at most one
   token in a nanosecond. *)
Theorem batch_is_one_of_steps : forall a c p b, is_valid c p b -> fits a c p b = true -> a <> Even ->
  let '(c', p', b') := batch_of a c p b in is_valid c' p' b' /\ 1 <= c' <= p' /\ p' <= 2 ^ 58 /\ c' <= b' <= 2 ^ 58.
Proof.
  intros a c p b (Hc & Hp & Hb & Hc64 & _ & _ & Hlong) F Ne.
  assert (Of : forall c' p' b', 1 <= c' <= p' -> p' <= 2 ^ 58 -> c' <= b' -> b' <= 2 ^ 58 -> b' * p' <= 2 ^ 58 * c' ->
    is_valid c' p' b' /\ 1 <= c' <= p' /\ p' <= 2 ^ 58 /\ c' <= b' <= 2 ^ 58).
  { intros c' p' b' H1 H2 H3 H4 H5. unfold is_valid. lia. }
  assert (Same : forall c' p', 1 <= c' <= p' -> p' <= 2 ^ 58 -> c' * p' <= 2 ^ 58 * c').
  { intros c' p' H1 H2. rewrite (Z.mul_comm c'). apply Z.mul_le_mono_nonneg_r; lia. }
  destruct a; [congruence| | | | |]; cbn [fits batch_of] in *; rewrite ?andb_true_iff, ?Z.leb_le, ?Z.ltb_lt in F.
  - assert (B : b <= 2 ^ 58).
    { apply Z.mul_le_mono_pos_r with p; [lia|]. assert (2 ^ 58 * c <= 2 ^ 58 * p) by (apply Z.mul_le_mono_nonneg_l; lia). lia. }
    destruct (b =? 1); [apply Of; try lia; apply Same; lia|].
    destruct (b <? c) eqn:E; [apply Z.ltb_lt in E; apply Of; try lia; apply Same; lia|]. apply Z.ltb_ge in E. apply Of; lia.
  - apply Of; try lia; apply Same; lia.
  - apply Of; try lia; apply Same; lia.
  - apply Of; try lia; apply Same; lia.
  - destruct (parts_of c p parts ltac:(lia) ltac:(lia)) as (P1 & P2 & P3 & P4). apply Of; try lia; apply Same; lia.
Qed.

(* A batch of each nanosecond has no steps: it is the default algorithm at one token in a nanosecond. *)
Theorem a_batch_of_each_nanosecond_is_even : forall capacity, exists P, stepped 1 1 capacity = Some P /\ are_of P 1 1 capacity.
Proof.
  intro capacity. unfold stepped. cbv zeta. cbn [Z.eqb Pos.eqb]. rewrite !(wrap_u128 1) by lia. rewrite checked_u128 by lia.
  destruct (fraction_is_the_ceiling 0 1) as (l & EL & FL); [lia|lia|].
  change (1 - 1) with 0. cbn [fst snd negb]. rewrite EL. cbn [bind].
  change UNLIMITED with (Some (Build_params 0 (2 ^ 58) (0, 0) 0 0 (0, 0) 1)). cbn [bind].
  eexists. split; [reflexivity|]. unfold are_of. fields. change (K 1 1) with 1. change (U 1 1) with 1. change (1 - 1) with 0.
  split; [reflexivity|]. split; [lia|]. split; [reflexivity|]. split; [reflexivity|]. split; [exact FL|]. left.
  split; [lia|]. split; [reflexivity|]. unfold is_fraction. cbn [fst snd]. lia.
Qed.

(* Within a step, at most the capacity: a fixed window admits at most N in a window, and sub-intervals their part. *)
Theorem at_most_the_capacity_in_a_step : forall c p capacity start t1 t2 from s, 0 <= capacity ->
  batches c p start t1 = batches c p start t2 ->
  run (batches c p start t1) (batches c p start t2) capacity {| tat := from; admitted := 0; others := 0 |} s ->
  admitted s <= capacity.
Proof.
  intros c p capacity start t1 t2 from s H E R. rewrite E in R.
  pose proof (bound_in_units (batches c p start t2) (batches c p start t2) capacity from s ltac:(lia) R). lia.
Qed.

(* A fixed window: at most 2N in any period. *)
Theorem fixed_window_bound : forall c p b start t1 t2 from s, is_valid c p b -> fits FixedWindow c p b = true -> 1 < p ->
  0 <= t1 <= t2 -> t2 - t1 < p ->
  run (batches c p start t1) (batches c p start t2) c {| tat := from; admitted := 0; others := 0 |} s ->
  admitted s <= 2 * c.
Proof.
  intros c p b start t1 t2 from s V F Hp H12 Short R. cbn [fits] in F. rewrite !andb_true_iff, !Z.leb_le in F. destruct V as (Hc & _).
  pose proof (bound_of_batches c p c start t1 t2 from s ltac:(lia) Hp ltac:(lia) H12 R) as B.
  assert (K1 : (t2 - t1 + p - 1) / p <= 1) by (apply Z.lt_succ_r; apply Z.div_lt_upper_bound; lia).
  assert ((t2 - t1 + p - 1) / p * c <= 1 * c) by (apply Z.mul_le_mono_nonneg_r; lia). lia.
Qed.

(* Sub-intervals: at most N in any period. *)
Theorem sub_interval_bound : forall c p b parts each part start t1 t2 from s, is_valid c p b ->
  fits (SubInterval parts) c p b = true -> batch_of (SubInterval parts) c p b = (each, part, each) -> 1 < part ->
  0 <= t1 <= t2 -> t2 - t1 < p ->
  run (batches each part start t1) (batches each part start t2) each {| tat := from; admitted := 0; others := 0 |} s ->
  admitted s <= c.
Proof.
  intros c p b parts each part start t1 t2 from s V F Ba H1 H12 Short R. cbn [fits batch_of] in *.
  rewrite !andb_true_iff, !Z.leb_le, Z.ltb_lt in F.
  destruct (parts_of c p parts ltac:(lia) ltac:(lia)) as (P1 & P2 & P3 & P4). inversion Ba as [[E1 E2 E3]]. clear Ba.
  rewrite E1, E2 in *. clear E3.
  pose proof (bound_of_batches each part each start t1 t2 from s P1 H1 ltac:(lia) H12 R) as B.
  assert (K1 : (t2 - t1 + part - 1) / part <= parts).
  { apply Z.lt_succ_r. apply Z.div_lt_upper_bound; [lia|]. lia. }
  assert ((t2 - t1 + part - 1) / part * each <= parts * each) by (apply Z.mul_le_mono_nonneg_r; lia). lia.
Qed.
Print Assumptions sub_interval_bound.
Print Assumptions batch_is_one_of_steps.
