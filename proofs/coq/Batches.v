(* Token buckets, fixed windows and sub-intervals: whole batches of `count` units at every multiple of the period since the
   start, exactly as the compiler has them. `stepped` never panics, `units_at` is exact, a grant begins at its tick, and any
   calls at ticks from t1 to t2 admit at most the capacity and a batch for each multiple of the period in between. *)
Require Import ZArith Lia Bool.
Require Import Machine Code Arithmetic Params Gcra.
Open Scope Z_scope.

(* The parameters of batches. At one unit in each nanosecond there are no steps, see `Params`. *)
Definition are_batches (P : params) (c p capacity start : Z) :=
  params_emission_interval P = 1 /\ params_burst_tolerance P = capacity /\ params_stride P = p /\
  params_start P = start /\ params_step P = c /\ is_fraction (params_surplus P) 1 p /\
  is_fraction (params_lack P) (c - 1) c.

(* `stepped` never panics. *)
Theorem stepped_is_exact : forall c p capacity, 1 <= c <= p -> 1 < p < 2 ^ 64 ->
  exists P, stepped c p capacity = Some P /\ are_batches P c p capacity 0.
Proof.
  intros c p capacity Hc Hp. unfold stepped. cbv zeta.
  replace (p =? 1) with false by (symmetry; apply Z.eqb_neq; lia).
  rewrite !(wrap_u128 p), !(wrap_u128 c) by lia. rewrite checked_u128 by lia.
  destruct (fraction_is_the_ceiling 1 p) as (f & EF & FF); [lia|lia|].
  destruct (fraction_is_the_ceiling (c - 1) c) as (l & EL & FL); [lia|lia|].
  rewrite EF. cbn [bind fst snd negb]. rewrite EL. cbn [bind].
  change UNLIMITED with (Some (Build_params 0 (2 ^ 58) (0, 0) 0 0 (0, 0) 1)). cbn [bind].
  eexists. split; [reflexivity|]. unfold are_batches. fields. do 5 (split; [reflexivity|]). split; assumption.
Qed.

(* The units at a tick. *)
Definition batches (c p start t : Z) := Z.max 0 (Z.min t last_tick - start) / p * c.

(* Such parameters have steps, unless `DENSE`, which is larger than any count. *)
Lemma they_are_stepped : forall P c p capacity start, are_batches P c p capacity start -> 1 <= c <= p -> 1 < p <= 2 ^ 58 ->
  is_dense P = Some false /\ is_stepped P = Some true /\ is_even P = Some false.
Proof.
  intros P c p capacity start (_ & _ & _ & _ & Step & F & _) Hc Hp.
  assert (ID : is_dense P = Some false).
  { unfold is_dense. cbv zeta. rewrite Step. change DENSE with (Some (2 ^ 63)). cbn [bind]. f_equal. apply Z.leb_gt. lia. }
  split; [exact ID|]. split.
  - unfold is_stepped. cbv zeta. rewrite Step, ID. replace (c =? 0) with false by (symmetry; apply Z.eqb_neq; lia). reflexivity.
  - unfold is_even, element. cbv zeta. change (0 <? 2) with true. cbn [Z.eqb]. f_equal. apply Z.eqb_neq.
    pose proof (upper_half _ _ _ F ltac:(lia) ltac:(lia)). lia.
Qed.

(* `units_at` never panics, and is exact. *)
Theorem batches_are_exact : forall P c p capacity start t, are_batches P c p capacity start -> 1 <= c <= p ->
  1 < p <= 2 ^ 58 -> - 2 ^ 62 <= start <= last_tick -> 0 <= t -> units_at P t = Some (batches c p start t).
Proof.
  intros P c p capacity start t A Hc Hp Hs Ht.
  destruct (they_are_stepped P c p capacity start A Hc Hp) as (ID & IS & IE).
  destruct A as (_ & _ & _ & Start & Step & F & _).
  assert (X : last_tick = 288230376151711743) by reflexivity.
  assert (UU : units_unless_dense P t = Some (batches c p start t)).
  { unfold units_unless_dense, batches. rewrite clamped_is, IE. cbn [bind negb]. cbv zeta. rewrite Step, Start.
    replace (c =? 0) with false by (symmetry; apply Z.eqb_neq; lia). cbn [negb].
    set (n := Z.min t last_tick) in *. assert (Bn : 0 <= n < 2 ^ 58) by lia.
    rewrite wrap_i64 by lia. rewrite checked_i64 by lia. cbn [fst snd negb].
    assert (W : forall since, 0 <= since < 2 ^ 63 ->
      bind (part since (params_surplus P)) (fun v14 => bind (wrapping_mul u64 v14 c) (fun v0 => Some v0)) =
        Some (since / p * c)).
    { intros since H. rewrite (part_is_exact since _ 1 p) by (try exact F; lia). cbn [bind]. rewrite Z.mul_1_r.
      unfold wrapping_mul. cbn [bind]. pose proof (Z.div_mod since p ltac:(lia)) as D.
      pose proof (Z.mod_pos_bound since p ltac:(lia)) as M. assert (Q : 0 <= since / p) by (apply Z.div_pos; lia).
      set (q := since / p) in *. pose proof (Z.mul_le_mono_nonneg_l c p q Q ltac:(lia)).
      pose proof (Z.mul_nonneg_nonneg q c Q ltac:(lia)). rewrite wrap_u64 by lia. reflexivity. }
    destruct (n - start <? 0) eqn:E; cbn [negb].
    - apply Z.ltb_lt in E. rewrite Z.max_l by lia. apply W. lia.
    - apply Z.ltb_ge in E. rewrite Z.max_r by lia. rewrite wrap_u64 by lia. apply W. lia. }
  unfold units_at. rewrite IE, ID. cbn [bind negb]. rewrite UU. reflexivity.
Qed.

(* A grant begins at its tick. *)
Theorem a_grant_of_batches_is_exact : forall P c p capacity start tat at_, are_batches P c p capacity start ->
  1 <= c <= p -> 1 < p <= 2 ^ 58 -> - 2 ^ 62 <= start <= last_tick -> 0 <= at_ < 2 ^ 64 ->
  tat_grant_start tat P at_ = Some (batches c p start at_).
Proof.
  intros P c p capacity start tat at_ A Hc Hp Hs Ha.
  destruct (they_are_stepped P c p capacity start A Hc Hp) as (_ & IS & _).
  unfold tat_grant_start, tick_as_nanos, tick_from_nanos, saturating_sub, clamp. cbv zeta.
  rewrite (batches_are_exact P c p capacity start at_ A Hc Hp Hs ltac:(lia)). cbn [bind].
  replace (Z.max (least u64) (Z.min (at_ - 1) (greatest u64))) with (Z.max 0 (at_ - 1)) by (cbn [least greatest u64]; lia).
  rewrite (batches_are_exact P c p capacity start (Z.max 0 (at_ - 1)) A Hc Hp Hs ltac:(lia)). cbn [bind]. rewrite IS.
  destruct (batches c p start (Z.max 0 (at_ - 1)) <? tat); cbn [negb bind]; [|reflexivity].
  destruct (tat <? batches c p start at_); reflexivity.
Qed.

(* The bound: the capacity, and a batch for each multiple of the period in the time, of which there are at most the
   interval over the period, rounded up. A token is a unit. *)
Theorem bound_of_batches : forall c p capacity start t1 t2 from s, 1 <= c <= p -> 1 < p -> 0 <= capacity ->
  0 <= t1 <= t2 -> run (batches c p start t1) (batches c p start t2) capacity {| tat := from; admitted := 0; others := 0 |} s ->
  admitted s <= capacity + (t2 - t1 + p - 1) / p * c.
Proof.
  intros c p capacity start t1 t2 from s Hc Hp Hcap H12 R. unfold batches in R.
  set (x := Z.max 0 (Z.min t1 last_tick - start)) in *. set (y := Z.max 0 (Z.min t2 last_tick - start)) in *.
  assert (L : 0 <= y - x <= t2 - t1) by lia.
  pose proof (Z.div_mod x p ltac:(lia)) as Dx. pose proof (Z.mod_pos_bound x p ltac:(lia)) as Mx.
  pose proof (Z.div_mod y p ltac:(lia)) as Dy. pose proof (Z.mod_pos_bound y p ltac:(lia)) as My.
  pose proof (ceil_spec (t2 - t1) p ltac:(lia)) as C.
  assert (Le : x / p <= y / p) by (apply Z.div_le_mono; lia).
  set (a := x / p) in *. set (b := y / p) in *. set (k := (t2 - t1 + p - 1) / p) in *.
  assert (K : b - a <= k).
  { assert (S : (b - a - 1) * p < k * p) by lia. apply Z.mul_lt_mono_pos_r in S; lia. }
  pose proof (Z.mul_le_mono_nonneg_r a b c ltac:(lia) Le) as M1.
  pose proof (Z.mul_le_mono_nonneg_r (b - a) k c ltac:(lia) K) as M2.
  pose proof (bound_in_units (a * c) (b * c) capacity from s ltac:(lia) R). lia.
Qed.
Print Assumptions batches_are_exact.
Print Assumptions a_grant_of_batches_is_exact.
Print Assumptions bound_of_batches.
