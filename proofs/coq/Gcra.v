(* The promise of the default algorithm, over the functions as the compiler has them: `take` decides exactly and names the
   first unit that would do; a late waiter's charge begins within the nanosecond in which it became due; and whatever the
   calls, their threads and their clocks, what is admitted at ticks from t1 to t2, and not refunded, is less than
   burst + rate * (t2 - t1 + 1 ns). *)
Require Import ZArith Lia Psatz Bool.
Require Import Machine Code Arithmetic Params.
Open Scope Z_scope.

(* `Tat::take` never panics. It admits exactly what ends by now plus the tolerance; otherwise it names a unit. *)
Theorem take_is_exact : forall P tat now price,
  0 <= tat < 2 ^ 60 -> 0 <= now < 2 ^ 60 -> 0 <= price <= params_burst_tolerance P -> params_burst_tolerance P < 2 ^ 60 ->
  tat_take tat P now price = Some (let e := Z.max tat now + price in
    if e <=? now + params_burst_tolerance P then inl e else inr (e - params_burst_tolerance P)).
Proof.
  intros P tat now price Ht Hn Hp Hl. unfold tat_take, wrapping_add, wrapping_sub. cbv zeta. cbn [bind fst snd].
  rewrite (wrap_u64 (now + params_burst_tolerance P)) by lia.
  destruct (now <? tat) eqn:E; cbn [negb].
  - apply Z.ltb_lt in E. rewrite (wrap_u64 (tat + price)) by lia. rewrite Z.max_l by lia.
    destruct (tat + price <=? now + params_burst_tolerance P) eqn:F; cbn [negb]; [reflexivity|].
    apply Z.leb_gt in F. rewrite wrap_u64 by lia. reflexivity.
  - apply Z.ltb_ge in E. rewrite (wrap_u64 (now + price)) by lia. rewrite Z.max_r by lia.
    destruct (now + price <=? now + params_burst_tolerance P) eqn:F; cbn [negb]; [reflexivity|].
    apply Z.leb_gt in F. lia.
Qed.

(* The unit that a refusal names is the first at which the same call would be admitted. *)
Theorem refusal_names_the_first_unit : forall P tat now price unit later,
  0 <= tat < 2 ^ 60 -> 0 <= now < 2 ^ 60 -> 0 <= price <= params_burst_tolerance P -> params_burst_tolerance P < 2 ^ 60 ->
  0 <= later < 2 ^ 60 -> tat_take tat P now price = Some (inr unit) ->
  ((exists e, tat_take tat P later price = Some (inl e)) <-> unit <= later).
Proof.
  intros P tat now price unit later Ht Hn Hp Hl Hlater H. rewrite take_is_exact in H by assumption. cbv zeta in H.
  rewrite take_is_exact by assumption. cbv zeta.
  destruct (Z.max tat now + price <=? now + params_burst_tolerance P) eqn:E; [discriminate|]. inversion H; subst.
  apply Z.leb_gt in E. split.
  - intros (e & F). destruct (Z.max tat later + price <=? later + params_burst_tolerance P) eqn:G; [|discriminate].
    apply Z.leb_le in G. lia.
  - intro G. replace (Z.max tat later + price <=? later + params_burst_tolerance P) with true; [eexists; reflexivity|].
    symmetry. apply Z.leb_le. lia.
Qed.

(* `Tat::grant_start`: the charge of a waiter begins at the end of the backlog if that lies within the nanosecond that
   ends at the tick, and otherwise at the tick. *)
Theorem grant_start_is_exact : forall c p b P tat at_, is_valid c p b -> are_of P c p b -> 0 <= at_ < 2 ^ 64 ->
  exists start, tat_grant_start tat P at_ = Some start /\
    (start = units c p at_ \/ (start = tat /\ units c p (Z.max 0 (at_ - 1)) < tat < units c p at_)).
Proof.
  intros c p b P tat at_ V A Ha. unfold tat_grant_start, tick_as_nanos, tick_from_nanos, saturating_sub, clamp. cbv zeta.
  rewrite (units_are_exact c p b P at_ V A ltac:(lia)). cbn [bind].
  replace (Z.max (least u64) (Z.min (at_ - 1) (greatest u64))) with (Z.max 0 (at_ - 1)) by (cbn [least greatest u64]; lia).
  rewrite (units_are_exact c p b P (Z.max 0 (at_ - 1)) V A ltac:(lia)). cbn [bind].
  assert (S : exists s, is_stepped P = Some s).
  { unfold is_stepped, is_dense. cbv zeta. change DENSE with (Some (2 ^ 63)). cbn [bind].
    destruct (negb (params_step P =? 0)); cbn [negb]; eexists; reflexivity. }
  destruct S as (s & S). rewrite S. cbn [bind].
  destruct (units c p (Z.max 0 (at_ - 1)) <? tat) eqn:E1; cbn [negb]; [|eexists; split; [reflexivity|left; reflexivity]].
  destruct (tat <? units c p at_) eqn:E2; cbn [negb]; [|eexists; split; [reflexivity|left; reflexivity]].
  apply Z.ltb_lt in E1. apply Z.ltb_lt in E2.
  destruct s; cbn [negb]; eexists; (split; [reflexivity|]); [left; reflexivity|right; lia].
Qed.

(* The steps of the next proof, for either of the two units from which a charge may begin. *)
Ltac charge_at from P cost :=
  unfold saturating_sub, clamp; cbn [bind least greatest u64];
  replace (Z.max 0 (Z.min (2 ^ 60 - 1 - from) 18446744073709551615)) with (2 ^ 60 - 1 - from) by lia;
  unfold tokens, checked_div; cbv zeta;
  replace (params_emission_interval P =? 0) with false by (symmetry; apply Z.eqb_neq; lia);
  cbn [bind is_some content Z.eqb Pos.eqb];
  assert (Fits : cost <= (2 ^ 60 - 1 - from) / params_emission_interval P) by (apply Z.div_le_lower_bound; lia);
  assert (Same : (if negb (cost <? (2 ^ 60 - 1 - from) / params_emission_interval P)
    then (2 ^ 60 - 1 - from) / params_emission_interval P else cost) = cost)
    by (destruct (cost <? (2 ^ 60 - 1 - from) / params_emission_interval P) eqn:C; cbn [negb];
        [reflexivity|apply Z.ltb_ge in C; lia]);
  destruct (cost <? (2 ^ 60 - 1 - from) / params_emission_interval P); cbn [negb] in *; rewrite ?Same;
  unfold units_of, saturating_mul, clamp; cbv zeta; cbn [bind least greatest u64];
  replace (Z.max 0 (Z.min (params_emission_interval P * cost) 18446744073709551615))
    with (params_emission_interval P * cost) by lia;
  rewrite checked_u64 by lia; cbn [fst snd negb]; unfold tat_from_units;
  change MAX_TAT with (Some (2 ^ 60 - 1)); cbn [bind];
  replace (2 ^ 60 - 1 <? from + params_emission_interval P * cost) with false by (symmetry; apply Z.ltb_ge; lia);
  reflexivity.

(* `Tat::charge_part`: a charge for which there is room before the end of time is made whole. *)
Theorem charge_is_exact : forall P tat start cost, 0 <= tat -> 0 <= start -> 0 < cost < 2 ^ 64 ->
  0 < params_emission_interval P < 2 ^ 64 ->
  Z.max tat start + params_emission_interval P * cost <= 2 ^ 60 - 1 ->
  tat_charge tat P start cost = Some (Z.max tat start + params_emission_interval P * cost, cost).
Proof.
  intros P tat start cost Ht Hs Hc Hk Room. unfold tat_charge. cbv zeta.
  replace (0 <? cost) with true by (symmetry; apply Z.ltb_lt; lia). cbn [negb].
  assert (Le : params_emission_interval P * 1 <= params_emission_interval P * cost) by (apply Z.mul_le_mono_nonneg_l; lia).
  change MAX_TAT with (Some (2 ^ 60 - 1)). cbn [bind].
  destruct (tat <? start) eqn:E; cbn [negb];
    [apply Z.ltb_lt in E; rewrite (Z.max_r tat start) in * by lia|
     apply Z.ltb_ge in E; rewrite (Z.max_l tat start) in * by lia].
  - charge_at start P cost.
  - charge_at tat P cost.
Qed.

(* The calls, in the order of their exchanges or of the lock. The state is the end of the backlog; the units admitted at
   ticks from t1 to t2, less their refunds; and the units of other charges made since, less their refunds. `a` is the first
   unit at which such an admission may begin, `b` the last unit of t2. *)
Record state := { tat : Z; admitted : Z; others : Z }.
Inductive step (a b tolerance : Z) : state -> state -> Prop :=
  (* An admission at a tick from t1 to t2: `take_is_exact`, or a grant by `grant_start_is_exact` and `charge_is_exact`. *)
  | Admit : forall s start price, a <= start -> start <= b -> 0 <= price ->
      Z.max (tat s) start + price <= b + tolerance ->
      step a b tolerance s {| tat := Z.max (tat s) start + price; admitted := admitted s + price; others := others s |}
  (* Any other charge: at an earlier or a later tick, or forced beyond the burst. *)
  | Other : forall s start price, 0 <= price -> 0 < admitted s + others s ->
      step a b tolerance s {| tat := Z.max (tat s) start + price; admitted := admitted s; others := others s + price |}
  (* What was called before the first admission. *)
  | Before : forall s t, admitted s = 0 -> others s = 0 -> step a b tolerance s {| tat := t; admitted := 0; others := 0 |}
  (* Refunds of one of the admitted charges, of another one made since, and of one made before: `Refunds::give` gives at
     most what is unpaid, less the newer charges. Its clock is not before that of an admission: `a <= now`. *)
  | RefundAdmitted : forall s r, 0 <= r <= admitted s ->
      step a b tolerance s {| tat := tat s - r; admitted := admitted s - r; others := others s |}
  | RefundOther : forall s r, 0 <= r <= others s ->
      step a b tolerance s {| tat := tat s - r; admitted := admitted s; others := others s - r |}
  | RefundBefore : forall s r now, 0 <= r -> a <= now -> now + admitted s + others s + r <= tat s ->
      step a b tolerance s {| tat := tat s - r; admitted := admitted s; others := others s |}.
Inductive run (a b tolerance : Z) : state -> state -> Prop :=
  | Done : forall s, run a b tolerance s s
  | More : forall s t u, run a b tolerance s t -> step a b tolerance t u -> run a b tolerance s u.

(* What holds after each call. *)
Definition holds (a b tolerance : Z) (s : state) :=
  0 <= admitted s /\ 0 <= others s /\ admitted s <= Z.max 0 (b + tolerance - a) /\
  (admitted s + others s = 0 \/ a + admitted s + others s <= tat s).
(* Each call keeps it. *)
Lemma step_keeps : forall a b tolerance s t, holds a b tolerance s -> step a b tolerance s t -> holds a b tolerance t.
Proof. intros a b tolerance s t H S. unfold holds in *. destruct S; cbn [tat admitted others] in *; lia. Qed.
(* After any calls, what is admitted from unit a on is at most what lies between a and the burst after b. *)
Theorem bound_in_units : forall a b tolerance from s, a <= b + tolerance ->
  run a b tolerance {| tat := from; admitted := 0; others := 0 |} s -> admitted s <= b + tolerance - a.
Proof.
  intros a b tolerance from s Hab R.
  assert (H : holds a b tolerance s); [|unfold holds in H; lia].
  remember {| tat := from; admitted := 0; others := 0 |} as first eqn:E.
  induction R as [|s t u R IH S]; [subst; unfold holds; cbn; lia|]. exact (step_keeps _ _ _ _ _ (IH E) S).
Qed.

(* The first unit at which an admission at a tick from t1 on begins, and that this is so for takes and for grants. *)
Definition first_unit (c p t1 : Z) := if t1 =? 0 then 0 else Z.min (units c p t1) (units c p (t1 - 1) + 1).
(* A later tick has at least as many units. *)
Lemma units_rise : forall c p s t, 1 <= c -> 1 <= p -> s <= t -> units c p s <= units c p t.
Proof.
  intros c p s t Hc Hp H. pose proof (units_of_a_period c p Hc Hp) as (_ & KU & _). unfold units.
  assert (Z.min s last_tick * U c p / p <= Z.min t last_tick * U c p / p); [|lia].
  apply Z.div_le_mono; [lia|]. apply Z.mul_le_mono_nonneg_r; lia.
Qed.
(* A take at a tick from t1 on begins at the first unit or later. *)
Theorem a_take_begins_in_time : forall c p t1 t, 1 <= c -> 1 <= p -> 0 <= t1 <= t -> first_unit c p t1 <= units c p t.
Proof.
  intros c p t1 t Hc Hp H. unfold first_unit. destruct (t1 =? 0).
  - pose proof (units_rise c p 0 t Hc Hp ltac:(lia)) as R. unfold units at 1 in R.
    change (Z.min 0 last_tick) with 0 in R. rewrite Z.mul_0_l, Z.div_0_l in R by lia. unfold last_unit in R. lia.
  - pose proof (units_rise c p t1 t Hc Hp ltac:(lia)). lia.
Qed.
(* A grant at a tick from t1 on begins at the first unit or later, and not after its tick. *)
Theorem a_grant_begins_in_time : forall c p b P tat at_ t1 start, is_valid c p b -> are_of P c p b -> 0 <= t1 <= at_ ->
  at_ < 2 ^ 64 -> tat_grant_start tat P at_ = Some start -> first_unit c p t1 <= start <= units c p at_.
Proof.
  intros c p b P tat at_ t1 start V A H Ha G.
  destruct (grant_start_is_exact c p b P tat at_ V A ltac:(lia)) as (s & G' & S). rewrite G in G'. inversion G'; subst s.
  destruct V as (Hc & Hp & _). pose proof (a_take_begins_in_time c p t1 at_ Hc ltac:(lia) H) as T.
  destruct S as [S|(S & B)]; [lia|]. split; [|lia]. unfold first_unit in *. destruct (t1 =? 0) eqn:E.
  - pose proof (a_take_begins_in_time c p 0 (Z.max 0 (at_ - 1)) Hc ltac:(lia) ltac:(lia)) as T0.
    unfold first_unit in T0. cbn in T0. lia.
  - apply Z.eqb_neq in E. pose proof (units_rise c p (t1 - 1) (at_ - 1) Hc ltac:(lia) ltac:(lia)).
    rewrite (Z.max_r 0 (at_ - 1)) in B by lia. lia.
Qed.

(* README: at ticks from t1 to t2, at most the burst and the rate times the interval and a nanosecond. `n` tokens were
   admitted and not refunded; both sides are multiplied by the period, so nothing is rounded. It holds for every valid
   quota, every debt from before, and any calls. *)
Theorem readme_bound : forall c p b t1 t2 from s n, is_valid c p b -> 0 <= t1 <= t2 ->
  run (first_unit c p t1) (units c p t2) (K c p * b) {| tat := from; admitted := 0; others := 0 |} s ->
  admitted s = K c p * n -> n * p < b * p + c * (t2 - t1 + 1).
Proof.
  intros c p b t1 t2 from s n V H12 R E. pose proof (burst_fits c p b V) as BF. destruct V as (Hc & Hp & Hb & _).
  pose proof (units_of_a_period c p Hc ltac:(lia)) as (K1 & KU & _).
  pose proof (a_take_begins_in_time c p t1 t2 Hc ltac:(lia) H12) as T.
  pose proof (bound_in_units (first_unit c p t1) (units c p t2) (K c p * b) from s ltac:(lia) R) as B. rewrite E in B. clear R E.
  assert (D : (units c p t2 - first_unit c p t1) * p < (t2 - t1 + 1) * U c p).
  { clear B BF T. assert (F : forall x, x * U c p / p * p <= x * U c p < x * U c p / p * p + p).
    { intro x. pose proof (Z.div_mod (x * U c p) p ltac:(lia)). pose proof (Z.mod_pos_bound (x * U c p) p ltac:(lia)). lia. }
    unfold first_unit, units. set (u := U c p) in *.
    assert (M : forall x y, x <= y -> (Z.min y last_tick - Z.min x last_tick) * u <= (y - x) * u).
    { intros x y L. apply Z.mul_le_mono_nonneg_r; lia. }
    pose proof (F (Z.min t2 last_tick)) as F2. set (x2 := Z.min t2 last_tick * u / p) in *.
    assert (F2' : Z.min x2 last_unit <= x2) by lia.
    destruct (t1 =? 0) eqn:Z0.
    - apply Z.eqb_eq in Z0. subst t1. assert (Z.min t2 last_tick * u <= t2 * u) by (apply Z.mul_le_mono_nonneg_r; lia).
      assert (Z.min x2 last_unit * p <= x2 * p) by (apply Z.mul_le_mono_nonneg_r; lia). lia.
    - pose proof (F (Z.min t1 last_tick)) as F1. set (x1 := Z.min t1 last_tick * u / p) in *.
      pose proof (F (Z.min (t1 - 1) last_tick)) as F0. set (x0 := Z.min (t1 - 1) last_tick * u / p) in *.
      pose proof (M t1 t2 ltac:(lia)) as M1. pose proof (M (t1 - 1) t2 ltac:(lia)) as M0.
      assert (R1 : x1 <= x2) by (apply Z.div_le_mono; [lia|apply Z.mul_le_mono_nonneg_r; lia]).
      assert (R0 : x0 <= x2) by (apply Z.div_le_mono; [lia|apply Z.mul_le_mono_nonneg_r; lia]).
      assert (C1 : (Z.min x2 last_unit - Z.min x1 last_unit) * p <= (x2 - x1) * p) by (apply Z.mul_le_mono_nonneg_r; lia).
      assert (C0 : (Z.min x2 last_unit - Z.min x0 last_unit) * p <= (x2 - x0) * p) by (apply Z.mul_le_mono_nonneg_r; lia).
      destruct (Z.min_spec (Z.min x1 last_unit) (Z.min x0 last_unit + 1)) as [(_ & Mn)|(_ & Mn)]; rewrite Mn; lia. }
  unfold U in D. assert (Q : p * (K c p * n) <= p * (units c p t2 + K c p * b - first_unit c p t1))
    by (apply Z.mul_le_mono_nonneg_l; lia).
  apply Z.mul_lt_mono_pos_l with (K c p); [lia|]. lia.
Qed.
Print Assumptions readme_bound.
Print Assumptions refusal_names_the_first_unit.
Print Assumptions a_grant_begins_in_time.
Print Assumptions charge_is_exact.
