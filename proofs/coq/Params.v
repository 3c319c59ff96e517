(* A quota in units, exactly as the compiler has it: `new` never panics for a quota that passed its checks; `units_at`
   never panics and is the exact floor of tick * K * count / period, where K = ceil(period / count), for every quota:
   sparse ones, even ones, and dense ones (two tokens or more in a nanosecond). *)
Require Import ZArith Lia Psatz Bool.
Require Import Machine Code Arithmetic.
Open Scope Z_scope.

(* What `Quota::checked` lets pass. *)
Definition is_valid (c p b : Z) :=
  1 <= c /\ 1 <= p < 2 ^ 64 /\ 1 <= b /\ c < 2 ^ 64 /\ c <= 16 * p /\ (2 * p <= c -> b <= 2 ^ 56) /\ b * p <= 2 ^ 58 * c.

(* The units of a token, and of a period. *)
Definition K (c p : Z) := (p + c - 1) / c.
Definition U (c p : Z) := K c p * c.

(* A period has at least a unit for each nanosecond; and fewer than two, unless a token takes one unit. *)
Lemma units_of_a_period : forall c p, 1 <= c -> 1 <= p ->
  1 <= K c p /\ p <= U c p < p + c /\ (2 * p <= U c p -> K c p = 1).
Proof.
  intros c p Hc Hp. pose proof (ceil_spec p c ltac:(lia)) as S. unfold U, K in *.
  set (k := (p + c - 1) / c) in *. split; [nia|]. split; [lia|]. intro D. nia.
Qed.

(* The fraction of a quotient that is not zero is at least a 2^64th, so its upper half says whether it is zero. *)
Lemma upper_half : forall f num den, is_fraction f num den -> 0 < num -> 0 < den < 2 ^ 64 -> 1 <= fst f.
Proof.
  intros f num den (H1 & H0 & HF) Hn Hd. destruct (Z.eq_dec (fst f) 0) as [E|]; [|lia]. exfalso.
  rewrite E in HF. pose proof (product (snd f) den _ _ H0 (conj (Z.lt_le_incl _ _ (proj1 Hd)) (proj2 Hd))). lia.
Qed.
(* The fraction of 0 is 0. *)
Lemma zero_fraction : forall f den, is_fraction f 0 den -> 0 < den -> f = (0, 0).
Proof. intros [a b] den (H1 & H0 & HF) Hd. cbn [fst snd] in *. assert (a * 2 ^ 64 + b < 1) by (apply Z.mul_lt_mono_pos_r with den; lia). f_equal; lia. Qed.

(* The parameters that belong to a quota. *)
Definition are_of (P : params) (c p b : Z) :=
  params_emission_interval P = K c p /\ params_burst_tolerance P = K c p * b /\
  params_start P = 0 /\ params_stride P = 1 /\ is_fraction (params_lack P) (U c p - p) (U c p) /\
  ((U c p < 2 * p /\ params_step P = 0 /\ is_fraction (params_surplus P) (U c p - p) p) \/
   (2 * p <= U c p /\ params_step P = Z.lor (2 ^ 63) (c / p) /\
     (if c mod p =? 0 then params_surplus P = (1, 0) else is_fraction (params_surplus P) (c mod p) p))).

(* A whole burst is below 2^59 units. *)
Lemma burst_fits : forall c p b, is_valid c p b -> 1 <= K c p * b < 2 ^ 59.
Proof.
  intros c p b (Hc & Hp & Hb & _ & Hd & Hl & Hlong). pose proof (units_of_a_period c p Hc ltac:(lia)) as (K1 & KU & KD).
  pose proof (Z.mul_le_mono_nonneg 1 (K c p) 1 b ltac:(lia) ltac:(lia) ltac:(lia) ltac:(lia)) as Low.
  split; [lia|]. destruct (Z_lt_le_dec (U c p) (2 * p)) as [S|D].
  - apply Z.mul_lt_mono_pos_r with p; [lia|]. unfold U in S.
    pose proof (Z.mul_le_mono_nonneg_l (b * p) (2 ^ 58 * c) (K c p) ltac:(lia) Hlong) as M. lia.
  - specialize (KD D). unfold U in D. rewrite KD in D |- *. specialize (Hl ltac:(lia)). lia.
Qed.

Ltac fields := cbn [params_emission_interval params_burst_tolerance params_surplus params_step params_start params_lack
  params_stride].

(* `Params::new` never panics for a valid quota. *)
Theorem new_is_exact : forall c p b, is_valid c p b ->
  exists P, new (Build_quota c p b) = Some P /\ are_of P c p b.
Proof.
  intros c p b V. pose proof (burst_fits c p b V) as BF. destruct V as (Hc & Hp & Hb & Hc64 & Hd & Hl & Hlong).
  pose proof (units_of_a_period c p Hc ltac:(lia)) as (K1 & KU & KD).
  assert (Kp : K c p <= p).
  { unfold K. apply Z.lt_succ_r. apply Z.div_lt_upper_bound; [lia|].
    pose proof (Z.mul_le_mono_nonneg_r 1 c p ltac:(lia) Hc). lia. }
  destruct (fraction_is_the_ceiling (U c p - p) (U c p)) as (lack & EL & FL); [lia|lia|].
  assert (NU : quota_is_unlimited (Build_quota c p b) = Some false).
  { unfold quota_is_unlimited. cbn [quota_count quota_period]. cbv zeta. cbn [greatest u64].
    destruct (c =? 18446744073709551615) eqn:E1; [|reflexivity]. cbn [negb]. destruct (p =? 1) eqn:E2; [|reflexivity].
    apply Z.eqb_eq in E1. apply Z.eqb_eq in E2. exfalso. lia. }
  unfold new. rewrite NU. unfold count, period_nanos, max_burst. cbn [bind negb quota_count quota_period quota_burst].
  cbv zeta. cbn [fst snd]. rewrite !(wrap_u128 c), !(wrap_u128 p) by lia.
  unfold div_ceil. replace (c =? 0) with false by (symmetry; apply Z.eqb_neq; lia).
  replace (p =? 0) with false by (symmetry; apply Z.eqb_neq; lia). cbn [bind negb].
  fold (K c p). fold (U c p).
  rewrite (checked_u128 (U c p)) by lia. rewrite (checked_u128 (2 * p)) by lia. cbn [fst snd negb].
  rewrite !(wrap_u64 (K c p)) by lia. rewrite (checked_u64 (K c p * b)) by lia. cbn [fst snd negb].
  rewrite (checked_u128 (U c p - p)) by lia. cbn [fst snd negb]. rewrite EL. cbn [bind].
  change UNLIMITED with (Some (Build_params 0 (2 ^ 58) (0, 0) 0 0 (0, 0) 1)).
  change DENSE with (Some (2 ^ 63)). change NONE with (Some (1, 0)). cbn [bind params_start params_stride].
  unfold are_of. destruct (U c p <? 2 * p) eqn:S.
  - apply Z.ltb_lt in S. cbn [negb].
    destruct (fraction_is_the_ceiling (U c p - p) p) as (f & EF & FF); [lia|lia|]. rewrite EF. cbn [bind fst snd].
    eexists. split; [reflexivity|]. fields. do 4 (split; [reflexivity|]). split; [exact FL|]. left.
    split; [exact S|]. split; [reflexivity|exact FF].
  - apply Z.ltb_ge in S. cbn [negb]. specialize (KD S).
    assert (Q : 0 <= c / p <= 16).
    { split; [apply Z.div_pos; lia|]. apply Z.lt_succ_r. apply Z.div_lt_upper_bound; lia. }
    rewrite (wrap_u64 (c / p)) by lia.
    destruct (c mod p =? 0) eqn:M; cbn [fst snd].
    + eexists. split; [reflexivity|]. fields. do 4 (split; [reflexivity|]). split; [exact FL|]. right.
      split; [exact S|]. split; reflexivity.
    + pose proof (Z.mod_pos_bound c p ltac:(lia)) as MB.
      destruct (fraction_is_the_ceiling (c mod p) p) as (f & EF & FF); [lia|lia|]. rewrite EF. cbn [bind fst snd].
      eexists. split; [reflexivity|]. fields. do 4 (split; [reflexivity|]). split; [exact FL|]. right.
      split; [exact S|]. split; [reflexivity|exact FF].
Qed.

(* The units at a tick: time ends at the last tick, and for dense quotas at the last unit. *)
Definition last_tick := 2 ^ 58 - 1.
Definition last_unit := 2 ^ 60 - 1 - 2 ^ 56.
Definition units (c p t : Z) := Z.min (Z.min t last_tick * U c p / p) last_unit.

(* `clamped` is the tick, or the last one. *)
Lemma clamped_is : forall t, clamped t = Some (Z.min t last_tick).
Proof.
  intro t. unfold clamped, tick_as_nanos. cbv zeta. cbn [bind].
  change LAST_TICK with (Some 288230376151711743). cbn [bind]. unfold last_tick.
  destruct (288230376151711743 <? t) eqn:E; cbn [negb].
  - apply Z.ltb_lt in E. f_equal. lia.
  - apply Z.ltb_ge in E. f_equal. lia.
Qed.

(* `units_at` never panics, and is exact, for every quota and every tick. *)
Theorem units_are_exact : forall c p b P t, is_valid c p b -> are_of P c p b -> 0 <= t ->
  units_at P t = Some (units c p t).
Proof.
  intros c p b P t V A Ht. destruct V as (Hc & Hp & Hb & Hc64 & Hd & Hl & Hlong).
  pose proof (units_of_a_period c p Hc ltac:(lia)) as (K1 & KU & KD).
  destruct A as (_ & _ & A0 & A1 & _ & A).
  assert (Bn : 0 <= Z.min t last_tick < 2 ^ 58) by (unfold last_tick; lia).
  unfold units. set (n := Z.min t last_tick) in *.
  assert (L : last_unit = 1080863910568919039) by reflexivity.
  destruct A as [(S & Step & F)|(D & Step & F)].
  - assert (Below : n * U c p / p < last_unit).
    { rewrite L. apply Z.div_lt_upper_bound; [lia|].
      pose proof (Z.mul_le_mono_nonneg n (2 ^ 58) (U c p) (2 * p) ltac:(lia) ltac:(lia) ltac:(lia) ltac:(lia)). lia. }
    rewrite Z.min_l by lia.
    assert (ID : is_dense P = Some false) by (unfold is_dense; rewrite Step; reflexivity).
    assert (UU : units_unless_dense P t = Some (n * U c p / p)).
    { unfold units_unless_dense. rewrite clamped_is. cbn [bind]. change (Z.min t last_tick) with n. unfold is_even, element. cbv zeta.
      change (0 <? 2) with true. cbn [Z.eqb bind]. rewrite Step.
      destruct (Z.eq_dec (U c p) p) as [E|E].
      - rewrite E, Z.sub_diag in F. rewrite (zero_fraction _ _ F ltac:(lia)). cbn [fst Z.eqb negb]. f_equal.
        rewrite E. symmetry. apply Z.div_mul. lia.
      - pose proof (upper_half _ _ _ F ltac:(lia) ltac:(lia)) as UH.
        replace (fst (params_surplus P) =? 0) with false by (symmetry; apply Z.eqb_neq; lia). cbn [negb Z.eqb].
        rewrite (part_is_exact n _ (U c p - p) p) by (try exact F; lia). cbn [bind].
        assert (E2 : n + n * (U c p - p) / p = n * U c p / p).
        { replace (n * U c p) with (n * (U c p - p) + n * p) by ring. rewrite Z.div_add by lia. lia. }
        rewrite E2. assert (0 <= n * U c p / p) by (apply Z.div_pos; [apply Z.mul_nonneg_nonneg; lia|lia]).
        rewrite checked_u64 by lia. reflexivity. }
    unfold units_at. rewrite ID. destruct (is_even P) as [e|] eqn:EE.
    + cbn [bind]. rewrite UU. destruct e; reflexivity.
    + unfold is_even, element in EE. cbv zeta in EE. change (0 <? 2) with true in EE. discriminate.
  - specialize (KD D). assert (UC : U c p = c) by (unfold U; rewrite KD; lia). rewrite UC in D |- *.
    assert (Q : 2 <= c / p <= 16).
    { split; [apply Z.div_le_lower_bound; lia|]. apply Z.lt_succ_r. apply Z.div_lt_upper_bound; lia. }
    pose proof (Z.div_mod c p ltac:(lia)) as DM. pose proof (Z.mod_pos_bound c p ltac:(lia)) as MB.
    assert (X : c / p = 2 \/ c / p = 3 \/ c / p = 4 \/ c / p = 5 \/ c / p = 6 \/ c / p = 7 \/ c / p = 8 \/ c / p = 9 \/
      c / p = 10 \/ c / p = 11 \/ c / p = 12 \/ c / p = 13 \/ c / p = 14 \/ c / p = 15 \/ c / p = 16) by lia.
    assert (Sd : (2 ^ 63 <=? params_step P) = true /\ Z.land (params_step P) (greatest u64 - 2 ^ 63) = c / p).
    { rewrite Step. decompose [or] X; match goal with H : c / p = _ |- _ => rewrite H end; split; reflexivity. }
    destruct Sd as (Sd & Sl).
    assert (UH : 1 <= fst (params_surplus P)).
    { destruct (c mod p =? 0) eqn:M; [rewrite F; cbn; lia|]. apply Z.eqb_neq in M.
      exact (upper_half _ _ _ F ltac:(lia) ltac:(lia)). }
    assert (PE : part n (params_surplus P) = Some (n * (c mod p) / p)).
    { destruct (c mod p =? 0) eqn:M.
      - apply Z.eqb_eq in M. rewrite F, M, Z.mul_0_r, Z.div_0_l by lia.
        rewrite part_is_the_floor by (cbn [fst snd]; lia). cbn [fst snd]. f_equal. apply Z.div_small. lia.
      - apply part_is_exact; try exact F; lia. }
    unfold units_at, is_even, is_dense, element. cbv zeta. change (0 <? 2) with true. cbn [Z.eqb bind].
    replace (fst (params_surplus P) =? 0) with false by (symmetry; apply Z.eqb_neq; lia). cbn [negb].
    change DENSE with (Some (2 ^ 63)). cbn [bind]. rewrite Sd. cbn [negb]. rewrite clamped_is. cbn [bind]. change (Z.min t last_tick) with n.
    unfold dense_units_at. change DENSE with (Some (2 ^ 63)). cbn [bind]. cbv zeta. rewrite Sl.
    pose proof (Z.mul_le_mono_nonneg n (2 ^ 58) (c / p) 16 ltac:(lia) ltac:(lia) ltac:(lia) ltac:(lia)) as N1.
    pose proof (Z.mul_nonneg_nonneg n (c / p) ltac:(lia) ltac:(lia)) as N0.
    rewrite checked_u64 by lia. cbn [fst snd negb]. rewrite PE. cbn [bind].
    assert (E2 : n * (c / p) + n * (c mod p) / p = n * c / p).
    { pose proof (f_equal (Z.mul n) DM) as X2.
      replace (n * c) with (n * (c mod p) + n * (c / p) * p) by lia. rewrite Z.div_add by lia. lia. }
    rewrite E2. assert (N2 : 0 <= n * c / p < 2 ^ 63).
    { pose proof (Z.mul_le_mono_nonneg n (2 ^ 58) c (16 * p) ltac:(lia) ltac:(lia) ltac:(lia) ltac:(lia)).
      split; [apply Z.div_pos; [apply Z.mul_nonneg_nonneg; lia|lia]|]. apply Z.div_lt_upper_bound; [lia|]. lia. }
    rewrite checked_u64 by lia. cbn [fst snd negb].
    change LAST_UNIT with (Some 1080863910568919039). cbn [bind]. rewrite L.
    destruct (1080863910568919039 <? n * c / p) eqn:E; cbn [negb].
    + apply Z.ltb_lt in E. rewrite Z.min_r by lia. reflexivity.
    + apply Z.ltb_ge in E. rewrite Z.min_l by lia. reflexivity.
Qed.
