(* The way back from units to ticks, exactly as the compiler has it: `tick_at` never panics, and is the first tick at which
   so many units have passed, or never if that is after the last tick. So the tick that a refusal names is the first at
   which the same call would be admitted. For every quota. *)
Require Import ZArith Lia Bool.
Require Import Machine Code Arithmetic Params Gcra.
Open Scope Z_scope.

(* The first tick of some units, rounded up to a whole nanosecond. *)
Definition first_tick (c p n : Z) := (n * p + U c p - 1) / U c p.

(* Some units have passed at a tick exactly if it is not before that one. *)
Lemma units_have_passed : forall c p n t, 1 <= c -> 1 <= p -> 0 <= n <= last_unit -> 0 <= t <= last_tick ->
  (n <= units c p t <-> first_tick c p n <= t).
Proof.
  intros c p n t Hc Hp Hn Ht. pose proof (units_of_a_period c p Hc Hp) as (_ & KU & _).
  pose proof (ceil_spec (n * p) (U c p) ltac:(lia)) as F. fold (first_tick c p n) in F.
  unfold units. rewrite (Z.min_l t last_tick) by lia. set (u := U c p) in *. set (f := first_tick c p n) in *.
  pose proof (Z.div_mod (t * u) p ltac:(lia)) as D. pose proof (Z.mod_pos_bound (t * u) p ltac:(lia)) as M.
  set (x := t * u / p) in *. split; intro H.
  - assert (N : n <= x) by lia. apply (Z.mul_le_mono_nonneg_r n x p) in N; [|lia].
    assert (L : (f - 1) * u < t * u) by lia. apply Z.mul_lt_mono_pos_r in L; lia.
  - apply (Z.mul_le_mono_nonneg_r f t u) in H; [|lia].
    assert (L : n * p < (x + 1) * p) by lia. apply Z.mul_lt_mono_pos_r in L; lia.
Qed.

(* `tick_at` never panics, and is that tick. *)
Theorem tick_at_is_exact : forall c p b P n, is_valid c p b -> are_of P c p b -> 0 <= n <= last_unit ->
  tick_at P n = Some (if last_tick <? first_tick c p n then greatest u64 else first_tick c p n).
Proof.
  intros c p b P n V A Hn. destruct V as (Hc & Hp & _ & Hc64 & _).
  pose proof (units_of_a_period c p Hc ltac:(lia)) as (_ & KU & _).
  destruct A as (_ & _ & Start & Stride & Lack & _).
  pose proof (ceil_spec (n * p) (U c p) ltac:(lia)) as F. fold (first_tick c p n) in F.
  assert (L : last_unit = 1080863910568919039) by reflexivity.
  unfold tick_at. destruct (n =? 0) eqn:N0.
  - apply Z.eqb_eq in N0. subst n. unfold tick_from_nanos. cbn [bind].
    replace (first_tick c p 0) with 0 by (symmetry; apply Z.div_small; lia). reflexivity.
  - apply Z.eqb_neq in N0. cbv zeta. replace (1 <=? n) with true by (symmetry; apply Z.leb_le; lia).
    replace (n <=? 1080863910568919039) with true by (symmetry; apply Z.leb_le; lia). cbn [negb].
    unfold tick_at_or_before_last. cbv zeta.
    rewrite (part_is_exact n _ (U c p - p) (U c p)) by (try exact Lack; lia). cbn [bind].
    set (u := U c p) in *. set (f := first_tick c p n) in *.
    pose proof (Z.div_mod (n * (u - p)) u ltac:(lia)) as D.
    pose proof (Z.mod_pos_bound (n * (u - p)) u ltac:(lia)) as M.
    assert (Q : 0 <= n * (u - p) / u).
    { apply Z.div_pos; [apply Z.mul_nonneg_nonneg; lia|lia]. }
    set (q := n * (u - p) / u) in *.
    assert (E : n - q = f).
    { assert (A1 : (f - 1) * u < (n - q) * u) by lia. assert (A2 : (n - q) * u < (f + 1) * u) by lia.
      apply Z.mul_lt_mono_pos_r in A1; [|lia]. apply Z.mul_lt_mono_pos_r in A2; lia. }
    assert (Fp : 0 <= f) by (assert (- 1 * u < f * u) as X by lia; apply Z.mul_lt_mono_pos_r in X; lia).
    rewrite E. rewrite checked_u64 by lia. cbn [fst snd negb].
    unfold saturating_mul, saturating_add_signed, clamp. cbn [bind]. rewrite Stride, Start.
    replace (Z.max (least u64) (Z.min (f * 1) (greatest u64))) with f by (cbn [least greatest u64]; lia).
    replace (Z.max (least u64) (Z.min (f + 0) (greatest u64))) with f by (cbn [least greatest u64]; lia).
    unfold tick_or_never, tick_from_nanos. change LAST_TICK with (Some last_tick). cbn [bind]. cbv zeta.
    destruct (last_tick <? f); reflexivity.
Qed.

(* Units after the last come never. *)
Theorem tick_at_is_never : forall P n, last_unit < n -> tick_at P n = Some (greatest u64).
Proof.
  intros P n H. assert (L : last_unit = 1080863910568919039) by reflexivity. unfold tick_at. cbv zeta.
  replace (n =? 0) with false by (symmetry; apply Z.eqb_neq; lia).
  replace (1 <=? n) with true by (symmetry; apply Z.leb_le; lia).
  replace (n <=? 1080863910568919039) with false by (symmetry; apply Z.leb_gt; lia). reflexivity.
Qed.

(* The tick of a refusal is the first, up to the last tick, at which the same call would be admitted. *)
Theorem refusal_names_the_first_tick : forall c p b P tat now price unit tick t, is_valid c p b -> are_of P c p b ->
  0 <= tat < 2 ^ 60 -> 0 <= now < 2 ^ 60 -> 0 <= price <= params_burst_tolerance P ->
  tat_take tat P now price = Some (inr unit) -> tick_at P unit = Some tick -> 0 <= t <= last_tick ->
  ((exists e, tat_take tat P (units c p t) price = Some (inl e)) <-> tick <= t).
Proof.
  intros c p b P tat now price unit tick t V A Htat Hnow Hprice R T Ht. pose proof (burst_fits c p b V) as BF.
  assert (Tol : params_burst_tolerance P = K c p * b) by apply A.
  pose proof V as (Hc & Hp & _).
  pose proof (units_rise c p 0 t Hc ltac:(lia) ltac:(lia)) as Low.
  assert (Zero : units c p 0 = 0) by (unfold units; change (Z.min 0 last_tick) with 0; rewrite Z.mul_0_l, Z.div_0_l by lia; reflexivity).
  assert (High : units c p t <= last_unit) by (unfold units; lia).
  assert (L : last_unit = 1080863910568919039) by reflexivity.
  assert (N : 0 <= unit).
  { rewrite take_is_exact in R by lia. cbv zeta in R.
    destruct (Z.max tat now + price <=? now + params_burst_tolerance P) eqn:E; [discriminate|]. inversion R.
    apply Z.leb_gt in E. lia. }
  rewrite (refusal_names_the_first_unit P tat now price unit (units c p t)); try assumption; try lia.
  destruct (Z_le_gt_dec unit last_unit) as [U1|U1].
  - rewrite (tick_at_is_exact c p b P unit V A) in T by lia. inversion T as [T']. clear T.
    rewrite (units_have_passed c p unit t) by lia.
    destruct (last_tick <? first_tick c p unit) eqn:E; [|reflexivity].
    apply Z.ltb_lt in E. assert (X : last_tick = 288230376151711743) by reflexivity. cbn [greatest u64]. lia.
  - rewrite tick_at_is_never in T by lia. inversion T. assert (X : last_tick = 288230376151711743) by reflexivity.
    cbn [greatest u64]. lia.
Qed.
Print Assumptions refusal_names_the_first_tick.
