(* Changes of the quota, under the default algorithm and over the functions as the compiler has them: `units_after` and
   `carry` never panic and are exact; a change in proportion never raises the available fraction of the burst; and if the
   spent number is kept, any calls between any changes admit, at ticks from t1 to t2, less than the largest burst and the
   largest rate * (t2 - t1 + 1 ns). Time has not ended: a backlog that ends after the last unit saturates there. *)
Require Import ZArith Lia Bool QArith Lqa.
Require Import Machine Code Arithmetic Params Gcra.
Open Scope Z_scope.

(* `leaves_a_rest` never panics, and says whether the exact product is not whole. *)
Theorem leaves_a_rest_is_exact : forall n f num den, 0 <= n < 2 ^ 63 -> 0 <= num < den -> den < 2 ^ 64 ->
  is_fraction f num den -> leaves_a_rest n f = Some (negb (n * num mod den =? 0)).
Proof.
  intros n [f1 f0] num den Hn Hnum Hden (H1 & H0 & HF). cbn [fst snd] in *.
  pose proof (product n f0 (2 ^ 63) _ Hn H0) as P0. pose proof (product n f1 (2 ^ 63) _ Hn H1) as P1.
  assert (D : n * f0 = 2 ^ 64 * (n * f0 / 2 ^ 64) + (n * f0) mod 2 ^ 64) by (apply Z.div_mod; lia).
  assert (M : 0 <= (n * f0) mod 2 ^ 64 < 2 ^ 64) by (apply Z.mod_pos_bound; lia).
  unfold leaves_a_rest. cbv zeta. change (wrap u32 64 <? 128) with true. change (1 <? 2) with true.
  change (0 <? 2) with true. unfold element, shr. cbn [fst snd Z.eqb]. rewrite ?Z.shiftr_div_pow2 by lia.
  rewrite !(wrap_u128 n), !(wrap_u128 f0), !(wrap_u128 f1) by lia.
  rewrite (checked_u128 (n * f0)) by lia. rewrite (checked_u128 (n * f1)) by lia. cbn [fst snd negb].
  set (l := n * f0 / 2 ^ 64) in *. set (m := (n * f0) mod 2 ^ 64) in *.
  assert (Lb : 0 <= l < 2 ^ 64) by lia.
  rewrite (checked_u128 (n * f1 + l)) by lia. cbn [fst snd negb]. rewrite wrap_is_mod by lia. f_equal. f_equal.
  set (g := f1 * 2 ^ 64 + f0) in *.
  pose proof (Z.div_mod (n * num) den ltac:(lia)) as Dm. pose proof (Z.mod_pos_bound (n * num) den ltac:(lia)) as Mb.
  set (q := n * num / den) in *. set (r := n * num mod den) in *.
  assert (E : exists e, g * den = num * 2 ^ 128 + e /\ 0 <= e < den) by (exists (g * den - num * 2 ^ 128); lia).
  destruct E as (e & Ef & He).
  assert (G : n * g = 2 ^ 64 * (n * f1 + l) + m) by (unfold g; rewrite Z.mul_add_distr_l; lia).
  (* What is left of the product above the whole part, in 2^128ths. *)
  set (x := n * g - 2 ^ 128 * q).
  assert (K : den * x = r * 2 ^ 128 + n * e).
  { unfold x. replace (den * (n * g - 2 ^ 128 * q)) with (n * (g * den) - 2 ^ 128 * (den * q)) by ring.
    rewrite Ef. replace (den * q) with (n * num - r) by lia. ring. }
  pose proof (product n e (2 ^ 63) (2 ^ 64) ltac:(lia) ltac:(lia)) as Pe.
  assert (Xp : 0 <= x) by (apply Z.mul_nonneg_cancel_l with den; lia).
  assert (X1 : x < 2 ^ 128).
  { apply Z.mul_lt_mono_pos_l with den; [lia|]. assert (Hr : r <= den - 1) by lia. clear - K Hr Pe. lia. }
  assert (S : n * f1 + l = 2 ^ 64 * q + x / 2 ^ 64).
  { assert (Y : x = 2 ^ 64 * (n * f1 + l - 2 ^ 64 * q) + m) by (unfold x; lia).
    pose proof (Z.div_unique x (2 ^ 64) (n * f1 + l - 2 ^ 64 * q) m ltac:(left; lia) Y). lia. }
  assert (R : (n * f1 + l) mod 2 ^ 64 = x / 2 ^ 64).
  { rewrite S. rewrite Z.add_comm, Z.mul_comm, Z.mod_add by lia. apply Z.mod_small.
    split; [apply Z.div_pos; lia|apply Z.div_lt_upper_bound; lia]. }
  rewrite R. destruct (r =? 0) eqn:Z0.
  - apply Z.eqb_eq in Z0. apply Z.eqb_eq. apply Z.div_small. split; [lia|].
    apply Z.mul_lt_mono_pos_l with den; [lia|].
    assert (n * e <= (2 ^ 63 - 1) * den) by (apply Z.mul_le_mono_nonneg; lia). lia.
  - apply Z.eqb_neq in Z0. apply Z.eqb_neq. assert (1 <= x / 2 ^ 64); [|lia].
    apply Z.div_le_lower_bound; [lia|]. apply Z.mul_le_mono_pos_l with den; [lia|].
    assert (0 <= n * e) by lia. lia.
Qed.

(* The first unit that has not begun to pass. *)
Definition after (c p t : Z) := let n := Z.min t last_tick in
  if n * U c p / p <? last_unit then (n * U c p + p - 1) / p else last_unit.

(* A quotient that is rounded up is the one that is rounded down, and one more if there is a rest. *)
Lemma up_and_down : forall a p, 0 < p -> (a + p - 1) / p = a / p + (if a mod p =? 0 then 0 else 1).
Proof.
  intros a p Hp. pose proof (Z.div_mod a p ltac:(lia)) as D. pose proof (Z.mod_pos_bound a p Hp) as M.
  symmetry. destruct (a mod p =? 0) eqn:E.
  - apply Z.eqb_eq in E. apply Z.div_unique with (p - 1); lia.
  - apply Z.eqb_neq in E. apply Z.div_unique with (a mod p - 1); lia.
Qed.

(* `units_after` never panics, and is that unit. *)
Theorem units_after_is_exact : forall c p b P t, is_valid c p b -> are_of P c p b -> 0 <= t ->
  units_after P t = Some (after c p t).
Proof.
  intros c p b P t V A Ht. pose proof (units_are_exact c p b P t V A Ht) as UE.
  destruct V as (Hc & Hp & Hb & Hc64 & Hd & _).
  pose proof (units_of_a_period c p Hc ltac:(lia)) as (K1 & KU & KD).
  destruct A as (_ & _ & _ & _ & _ & A). unfold after. set (n := Z.min t last_tick) in *.
  assert (Bn : 0 <= n < 2 ^ 58) by (unfold n, last_tick; lia).
  assert (L : last_unit = 1080863910568919039) by reflexivity.
  assert (Un : units c p t = Z.min (n * U c p / p) last_unit) by reflexivity.
  assert (N0 : 0 <= n * U c p / p) by (apply Z.div_pos; [apply Z.mul_nonneg_nonneg; lia|lia]).
  assert (IS : is_stepped P = Some false).
  { unfold is_stepped. cbv zeta. destruct A as [(_ & Step & _)|(_ & Step & _)].
    - rewrite Step. reflexivity.
    - unfold is_dense. change DENSE with (Some (2 ^ 63)). cbn [bind].
      assert (Q : 0 <= c / p <= 16).
      { split; [apply Z.div_pos; lia|]. apply Z.lt_succ_r. apply Z.div_lt_upper_bound; lia. }
      assert (Sd : 2 ^ 63 <= params_step P).
      { rewrite Step. apply Z.ldiff_le; [apply Z.lor_nonneg; lia|]. apply Z.bits_inj'. intros i _.
        rewrite Z.ldiff_spec, Z.lor_spec, Z.bits_0. destruct (Z.testbit (2 ^ 63) i); reflexivity. }
      replace (params_step P =? 0) with false by (symmetry; apply Z.eqb_neq; lia).
      replace (2 ^ 63 <=? params_step P) with true by (symmetry; apply Z.leb_le; lia). reflexivity. }
  (* Whether a rest is left, where the parameters do not say that there is none. *)
  assert (LR : (fst (params_surplus P) =? 1) && (snd (params_surplus P) =? 0) = true /\ n * U c p mod p = 0 \/
    (fst (params_surplus P) =? 1) && (snd (params_surplus P) =? 0) = false /\
    leaves_a_rest n (params_surplus P) = Some (negb (n * U c p mod p =? 0))).
  { assert (Real : forall num, 0 < num < p -> is_fraction (params_surplus P) num p ->
      (fst (params_surplus P) =? 1) && (snd (params_surplus P) =? 0) = false).
    { intros num Hnum (_ & _ & HF). apply andb_false_iff. destruct (fst (params_surplus P) =? 1) eqn:E1; [|left; reflexivity].
      right. apply Z.eqb_eq in E1. apply Z.eqb_neq. intro E0. rewrite E1, E0 in HF. lia. }
    destruct A as [(S & _ & F)|(Dn & _ & F)].
    - right. split.
      + destruct (Z.eq_dec (U c p) p) as [E|E].
        * rewrite E, Z.sub_diag in F. rewrite (zero_fraction _ _ F ltac:(lia)). reflexivity.
        * apply (Real (U c p - p)); [lia|exact F].
      + rewrite (leaves_a_rest_is_exact n _ (U c p - p) p) by (try exact F; lia). f_equal. f_equal. f_equal.
        replace (n * U c p) with (n * (U c p - p) + n * p) by ring. rewrite Z.mod_add by lia. reflexivity.
    - assert (UC : U c p = c) by (unfold U; rewrite (KD Dn); lia). rewrite UC.
      pose proof (Z.mod_pos_bound c p ltac:(lia)) as MB.
      destruct (c mod p =? 0) eqn:M.
      + left. rewrite F. split; [reflexivity|]. apply Z.eqb_eq in M.
        rewrite <- Z.mul_mod_idemp_r, M, Z.mul_0_r, Z.mod_0_l by lia. reflexivity.
      + apply Z.eqb_neq in M. right. split; [apply (Real (c mod p)); [lia|exact F]|].
        rewrite (leaves_a_rest_is_exact n _ (c mod p) p) by (try exact F; lia). rewrite Z.mul_mod_idemp_r by lia. reflexivity. }
  assert (Fits : forall x, units c p t = n * U c p / p -> n * U c p / p < last_unit -> 0 <= x <= 1 ->
    checked u64 (units c p t + x) = (n * U c p / p + x, false)).
  { intros x E Lt Hx. rewrite E. apply checked_u64. lia. }
  unfold units_after, element. cbv zeta. change (0 <? 2) with true. change (1 <? 2) with true.
  change NONE with (Some (1, 0)). change LAST_UNIT with (Some 1080863910568919039).
  cbn [bind Z.eqb Pos.eqb fst snd]. rewrite UE, IS, clamped_is. change (Z.min t last_tick) with n. cbn [bind negb].
  rewrite up_and_down by lia. rewrite L in *.
  destruct (n * U c p / p <? 1080863910568919039) eqn:Lt.
  - apply Z.ltb_lt in Lt. assert (Un' : units c p t = n * U c p / p) by lia.
    replace (units c p t <? 1080863910568919039) with true by (symmetry; apply Z.ltb_lt; lia).
    destruct LR as [(W & Z0)|(W & LR)].
    + apply andb_true_iff in W. destruct W as (W1 & W0). rewrite W1, W0, Z0. cbn [negb Z.eqb].
      rewrite (Fits 0) by lia. reflexivity.
    + rewrite LR. destruct (fst (params_surplus P) =? 1); cbn [andb] in W; [rewrite W|]; cbn [bind negb];
        (destruct (n * U c p mod p =? 0); cbn [negb]; [rewrite (Fits 0) by lia|rewrite (Fits 1) by lia]; reflexivity).
  - apply Z.ltb_ge in Lt. assert (Un' : units c p t = 1080863910568919039) by lia. rewrite Un'.
    change (1080863910568919039 <? 1080863910568919039) with false. cbn [negb].
    rewrite (checked_u64 (1080863910568919039 + 0)) by lia.
    destruct (fst (params_surplus P) =? 1); cbn [negb]; [destruct (snd (params_surplus P) =? 0); reflexivity|reflexivity].
Qed.

(* `saturated` never panics. *)
Lemma saturated_is : forall x, 0 <= x < 2 ^ 128 -> saturated x = Some (Z.min x (2 ^ 64 - 1)).
Proof.
  intros x H. unfold saturated. cbv zeta. cbn [greatest u64]. rewrite wrap_u128 by lia.
  destruct (18446744073709551615 <? x) eqn:E; cbn [negb].
  - apply Z.ltb_lt in E. f_equal. lia.
  - apply Z.ltb_ge in E. rewrite wrap_u64 by lia. f_equal. lia.
Qed.

(* The two ways of `QuotaChange`, by the number of the variant, and what each scales by: the tolerances, or the tokens. *)
Definition proportional := 0.
Definition keep_spent := 1.
Definition scale (how c p b : Z) := if how =? proportional then K c p * b else K c p.
(* A backlog in units of another quota, rounded up. *)
Definition owed (how c p b c' p' b' units_owed : Z) :=
  (units_owed * scale how c' p' b' + scale how c p b - 1) / scale how c p b.

(* The end of the backlog after a change: the backlog in new units from the next whole unit on, less the idle time. *)
Definition carried_end (how c p b c' p' b' tat t : Z) :=
  after c' p' t + owed how c p b c' p' b' (Z.max 0 (tat - units c p t)) - Z.max 0 (units c p t - tat) * K c' p' / K c p.

(* `carry` never panics. While time has not ended, it is that end, but not before the epoch. *)
Theorem carry_is_exact : forall how c p b P c' p' b' P' tat t, is_valid c p b -> are_of P c p b -> is_valid c' p' b' ->
  are_of P' c' p' b' -> how = proportional \/ how = keep_spent -> 0 <= tat < 2 ^ 60 -> 0 <= t < 2 ^ 64 ->
  after c' p' t + owed how c p b c' p' b' (Z.max 0 (tat - units c p t)) <= 2 ^ 60 - 1 ->
  tat_carry tat how P P' t = Some (Z.max 0 (carried_end how c p b c' p' b' tat t)).
Proof.
  intros how c p b P c' p' b' P' tat t V A V' A' How Htat Ht Room.
  pose proof (burst_fits c p b V) as BF. pose proof (burst_fits c' p' b' V') as BF'.
  pose proof (units_are_exact c p b P t V A ltac:(lia)) as UE.
  pose proof (units_after_is_exact c' p' b' P' t V' A' ltac:(lia)) as UA.
  destruct V as (Hc & Hp & Hb & _). destruct V' as (Hc' & Hp' & Hb' & _).
  pose proof (units_of_a_period c p Hc ltac:(lia)) as (K1 & _).
  pose proof (units_of_a_period c' p' Hc' ltac:(lia)) as (K1' & _).
  destruct A as (EI & BT & _). destruct A' as (EI' & BT' & _).
  assert (Kb : K c p <= K c p * b) by (rewrite <- (Z.mul_1_r (K c p)) at 1; apply Z.mul_le_mono_nonneg_l; lia).
  assert (Kb' : K c' p' <= K c' p' * b') by (rewrite <- (Z.mul_1_r (K c' p')) at 1; apply Z.mul_le_mono_nonneg_l; lia).
  assert (Un : 0 <= units c p t < 2 ^ 60).
  { pose proof (units_rise c p 0 t Hc ltac:(lia) ltac:(lia)) as R. unfold units at 1 in R.
    change (Z.min 0 last_tick) with 0 in R. rewrite Z.mul_0_l, Z.div_0_l in R by lia.
    assert (units c p t <= last_unit) by (unfold units; lia).
    assert (L : last_unit = 1080863910568919039) by reflexivity. lia. }
  assert (Af : 0 <= after c' p' t).
  { unfold after. assert (0 <= (Z.min t last_tick * U c' p' + p' - 1) / p').
    { apply Z.div_pos; [|lia]. pose proof (units_of_a_period c' p' Hc' ltac:(lia)).
      assert (0 <= Z.min t last_tick * U c' p') by (apply Z.mul_nonneg_nonneg; unfold last_tick; lia). lia. }
    assert (L : last_unit = 1080863910568919039) by reflexivity. destruct (_ <? _); lia. }
  set (back := Z.max 0 (tat - units c p t)) in *. set (idle := Z.max 0 (units c p t - tat)) in *.
  assert (Bk : 0 <= back < 2 ^ 60) by lia. assert (Id : 0 <= idle < 2 ^ 60) by lia.
  assert (Sc : 1 <= scale how c p b < 2 ^ 59) by (unfold scale; destruct (how =? proportional); lia).
  assert (Sc' : 1 <= scale how c' p' b' < 2 ^ 59) by (unfold scale; destruct (how =? proportional); lia).
  pose proof (product back (scale how c' p' b') (2 ^ 60) (2 ^ 59) ltac:(lia) ltac:(lia)) as Pb.
  pose proof (product idle (K c' p') (2 ^ 60) (2 ^ 59) ltac:(lia) ltac:(lia)) as Pi.
  assert (Ow : 0 <= owed how c p b c' p' b' back) by (apply Z.div_pos; lia).
  assert (SE : scaled how back (params_burst_tolerance P, params_burst_tolerance P')
      (params_emission_interval P, params_emission_interval P') = Some (owed how c p b c' p' b' back)).
  { unfold scaled. cbv zeta. unfold element. cbn [Z.eqb fst snd]. rewrite EI, EI', BT, BT'.
    rewrite !(wrap_u128 back), !(wrap_u128 (K c p * b)), !(wrap_u128 (K c' p' * b')), !(wrap_u128 (K c p)),
      !(wrap_u128 (K c' p')) by lia. unfold owed, scale, div_ceil in *.
    destruct How as [How|How]; subst how; cbn [proportional keep_spent Z.eqb Pos.eqb] in *; rewrite checked_u128 by lia;
      cbn [fst snd negb]; (replace (_ =? 0) with false by (symmetry; apply Z.eqb_neq; lia)); cbn [bind];
      (rewrite saturated_is; [cbn [bind]; f_equal; lia|]); (split; [apply Z.div_pos; lia|]);
      apply Z.div_lt_upper_bound; lia. }
  assert (NU : is_unlimited P = Some false).
  { unfold is_unlimited. cbv zeta. rewrite EI. f_equal. apply Z.eqb_neq. lia. }
  assert (NU' : is_unlimited P' = Some false).
  { unfold is_unlimited. cbv zeta. rewrite EI'. f_equal. apply Z.eqb_neq. lia. }
  unfold tat_carry, carried, tat_backlog_at, saturating_sub, saturating_add, clamp. cbv zeta. rewrite NU, NU'.
  cbn [bind negb]. rewrite UE. cbn [bind least greatest u64].
  replace (Z.max 0 (Z.min (tat - units c p t) 18446744073709551615)) with back by lia. rewrite SE. cbn [bind].
  replace (Z.max 0 (Z.min (units c p t - tat) 18446744073709551615)) with idle by lia.
  rewrite EI, EI', !(wrap_u128 idle), !(wrap_u128 (K c p)), !(wrap_u128 (K c' p')) by lia. rewrite checked_u128 by lia.
  cbn [fst snd negb]. replace (K c p =? 0) with false by (symmetry; apply Z.eqb_neq; lia). cbn [negb].
  assert (Q : 0 <= idle * K c' p' / K c p < 2 ^ 128).
  { split; [apply Z.div_pos; lia|]. apply Z.div_lt_upper_bound; lia. }
  rewrite saturated_is by exact Q. cbn [bind]. rewrite UA. cbn [bind]. unfold tat_from_units.
  change MAX_TAT with (Some (2 ^ 60 - 1)). cbn [bind]. cbv zeta. unfold carried_end. fold back. fold idle.
  set (o := owed how c p b c' p' b' back) in *. set (i := idle * K c' p' / K c p) in *. set (a := after c' p' t) in *.
  replace (Z.max 0 (Z.min (a + o) 18446744073709551615)) with (a + o) by lia.
  assert (E : Z.max 0 (Z.min (a + o - Z.min i (2 ^ 64 - 1)) 18446744073709551615) = Z.max 0 (a + o - i)) by lia.
  rewrite E. replace (2 ^ 60 - 1 <? Z.max 0 (a + o - i)) with false by (symmetry; apply Z.ltb_ge; lia). reflexivity.
Qed.

(* In proportion: what is owed, as a fraction of the burst, never falls by a change, so no change makes a part of the burst
   available. Both sides are multiplied by both bursts. *)
Theorem proportional_raises_nothing : forall c p b P c' p' b' P' tat t end_, is_valid c p b -> are_of P c p b ->
  is_valid c' p' b' -> are_of P' c' p' b' -> 0 <= tat < 2 ^ 60 -> 0 <= t < 2 ^ 64 ->
  after c' p' t + owed proportional c p b c' p' b' (Z.max 0 (tat - units c p t)) <= 2 ^ 60 - 1 ->
  tat_carry tat proportional P P' t = Some end_ ->
  Z.max 0 (tat - units c p t) * params_burst_tolerance P' <= Z.max 0 (end_ - units c' p' t) * params_burst_tolerance P.
Proof.
  intros c p b P c' p' b' P' tat t end_ V A V' A' Htat Ht Room E.
  rewrite (carry_is_exact proportional c p b P c' p' b' P' tat t V A V' A' (or_introl eq_refl) Htat Ht Room) in E.
  inversion E as [E']. clear E E'. pose proof (burst_fits c p b V) as BF. pose proof (burst_fits c' p' b' V') as BF'.
  destruct A as (_ & BT & _). destruct A' as (_ & BT' & _). rewrite BT, BT'. unfold carried_end.
  assert (Up : units c' p' t <= after c' p' t).
  { destruct V' as (_ & Hp' & _). unfold units, after. rewrite up_and_down by lia.
    destruct (_ mod _ =? 0); destruct (_ <? _) eqn:F; try (apply Z.ltb_lt in F); try (apply Z.ltb_ge in F); lia. }
  destruct (Z_le_gt_dec tat (units c p t)) as [Le|Gt].
  - rewrite Z.max_l by lia. rewrite Z.mul_0_l. apply Z.mul_nonneg_nonneg; lia.
  - rewrite (Z.max_r 0 (tat - units c p t)) in * by lia. rewrite (Z.max_l 0 (units c p t - tat)) by lia.
    rewrite Z.mul_0_l, Z.div_0_l by (destruct V as (Hc & Hp & _); pose proof (units_of_a_period c p Hc ltac:(lia)); lia).
    set (back := tat - units c p t) in *. unfold owed, scale in *. cbn [proportional Z.eqb] in *.
    pose proof (ceil_spec (back * (K c' p' * b')) (K c p * b) ltac:(lia)) as S.
    set (o := (back * (K c' p' * b') + K c p * b - 1) / (K c p * b)) in *.
    apply Z.le_trans with (o * (K c p * b)); [lia|]. apply Z.mul_le_mono_nonneg_r; lia.
Qed.

(* Fractions with a denominator above 0. *)
Definition frac (a d : Z) : Q := a # Z.to_pos d.
(* Fractions are compared by the products across. *)
Lemma frac_le : forall a d b e, 0 < d -> 0 < e -> (frac a d <= frac b e)%Q <-> a * e <= b * d.
Proof. intros a d b e Hd He. unfold frac, Qle. cbn [Qnum Qden]. rewrite !Z2Pos.id by lia. reflexivity. Qed.
(* The same for strictly less. *)
Lemma frac_lt : forall a d b e, 0 < d -> 0 < e -> (frac a d < frac b e)%Q <-> a * e < b * d.
Proof. intros a d b e Hd He. unfold frac, Qlt. cbn [Qnum Qden]. rewrite !Z2Pos.id by lia. reflexivity. Qed.
(* Fractions with one denominator are added by their numerators. *)
Lemma frac_plus : forall a b d, 0 < d -> (frac (a + b) d == frac a d + frac b d)%Q.
Proof. intros a b d Hd. unfold frac, Qeq, Qplus. cbn [Qnum Qden]. rewrite ?Pos2Z.inj_mul. ring. Qed.
(* A whole factor of the numerator is one of the fraction. *)
Lemma frac_times : forall a b d, 0 < d -> (frac (a * b) d == inject_Z a * frac b d)%Q.
Proof. intros a b d Hd. unfold frac, Qeq, Qmult, inject_Z. cbn [Qnum Qden]. rewrite ?Pos2Z.inj_mul. ring. Qed.
(* A multiple of the denominator is a whole number. *)
Lemma frac_whole : forall a d, 0 < d -> (frac (d * a) d == inject_Z a)%Q.
Proof. intros a d Hd. unfold frac, Qeq, inject_Z. cbn [Qnum Qden]. rewrite Z2Pos.id by lia. ring. Qed.

(* The tokens in a nanosecond, and the level: the end of the backlog in tokens from a tick on, below 0 if it has ended. *)
Definition rate (c p : Z) : Q := frac c p.
Definition level (c p tat t : Z) : Q := (frac tat (K c p) - inject_Z t * rate c p)%Q.

(* Time has not ended at a tick, so that the units are not cut off there. *)
Definition in_time (c p t : Z) := 0 <= t <= last_tick /\ t * U c p / p < last_unit.

(* A level in integers: both sides are multiplied by the units of a token and by the period. *)
Lemma level_above : forall c p tat t t', 1 <= c -> 1 <= p ->
  (inject_Z t' * rate c p - inject_Z t * rate c p < level c p tat t)%Q <-> t' * U c p < tat * p.
Proof.
  intros c p tat t t' Hc Hp. pose proof (units_of_a_period c p Hc Hp) as (K1 & _). unfold level, rate.
  assert (E : (frac (t' * c) p < frac tat (K c p))%Q <-> t' * U c p < tat * p).
  { rewrite frac_lt by lia. unfold U. replace (t' * (K c p * c)) with (t' * c * K c p) by ring. reflexivity. }
  rewrite <- E, frac_times by lia. split; intro; lra.
Qed.
(* The level is at most b tokens, if the backlog ends at most b tokens after the tick. *)
Lemma level_at_most : forall c p tat t b, 1 <= c -> 1 <= p ->
  tat * p <= t * U c p + K c p * b * p -> (level c p tat t <= inject_Z b)%Q.
Proof.
  intros c p tat t b Hc Hp H. pose proof (units_of_a_period c p Hc Hp) as (K1 & _). unfold level, rate.
  assert (E : (frac tat (K c p) <= frac (t * c + p * b) p)%Q).
  { rewrite frac_le by lia. unfold U in H. lia. }
  rewrite frac_plus, frac_times, frac_whole in E by lia. lra.
Qed.

(* A change that keeps the spent number never lowers the level at its tick. *)
Theorem keep_spent_lowers_no_level : forall c p b P c' p' b' P' tat t end_, is_valid c p b -> are_of P c p b ->
  is_valid c' p' b' -> are_of P' c' p' b' -> 0 <= tat < 2 ^ 60 -> in_time c p t -> in_time c' p' t ->
  after c' p' t + owed keep_spent c p b c' p' b' (Z.max 0 (tat - units c p t)) <= 2 ^ 60 - 1 ->
  tat_carry tat keep_spent P P' t = Some end_ -> (level c p tat t <= level c' p' end_ t)%Q.
Proof.
  intros c p b P c' p' b' P' tat t end_ V A V' A' Htat (Ht & Lu) (_ & Lu') Room E.
  assert (X : last_tick = 288230376151711743) by reflexivity.
  rewrite (carry_is_exact keep_spent c p b P c' p' b' P' tat t V A V' A' (or_intror eq_refl) Htat ltac:(lia) Room) in E.
  assert (E' : Z.max 0 (carried_end keep_spent c p b c' p' b' tat t) = end_) by congruence. clear E. destruct V as (Hc & Hp & _). destruct V' as (Hc' & Hp' & _).
  pose proof (units_of_a_period c p Hc ltac:(lia)) as (K1 & _).
  pose proof (units_of_a_period c' p' Hc' ltac:(lia)) as (K1' & _).
  assert (Au : t * U c' p' <= after c' p' t * p').
  { unfold after. rewrite (Z.min_l t) by lia. replace (t * U c' p' / p' <? last_unit) with true by (symmetry; apply Z.ltb_lt; lia).
    pose proof (ceil_spec (t * U c' p') p' ltac:(lia)). lia. }
  assert (Un : units c p t * p <= t * U c p).
  { unfold units. rewrite (Z.min_l t) by lia. rewrite Z.min_l by lia. pose proof (Z.mul_div_le (t * U c p) p ltac:(lia)). lia. }
  unfold carried_end, owed, scale in E'. cbn [proportional keep_spent Z.eqb] in E'.
  set (a := after c' p' t) in *. set (u := units c p t) in *. clear Room. clearbody a u.
  (* In old tokens from the tick on, and what that is in new ones. *)
  assert (G : (tat - u) * K c' p' <= (end_ - a) * K c p).
  { assert (Z1 : 0 <= Z.max 0 (tat - u)) by lia. assert (Z2 : 0 <= Z.max 0 (u - tat)) by lia.
    pose proof (ceil_spec (Z.max 0 (tat - u) * K c' p') (K c p) ltac:(lia)) as S.
    pose proof (Z.mul_div_le (Z.max 0 (u - tat) * K c' p') (K c p) ltac:(lia)) as S'.
    set (o := (Z.max 0 (tat - u) * K c' p' + K c p - 1) / K c p) in *.
    set (i := Z.max 0 (u - tat) * K c' p' / K c p) in *.
    assert (L : a + o - i <= end_) by lia.
    assert (M : (o - i) * K c p <= (end_ - a) * K c p) by (apply Z.mul_le_mono_nonneg_r; lia).
    assert (N : (tat - u) * K c' p' = Z.max 0 (tat - u) * K c' p' - Z.max 0 (u - tat) * K c' p').
    { rewrite <- Z.mul_sub_distr_r. f_equal. lia. }
    lia. }
  unfold level, rate.
  assert (G1 : (frac (tat - u) (K c p) <= frac (end_ - a) (K c' p'))%Q) by (rewrite frac_le by lia; exact G).
  assert (G2 : (frac u (K c p) <= frac (t * c) p)%Q).
  { rewrite frac_le by lia. unfold U in Un. lia. }
  assert (G3 : (frac (t * c') p' <= frac a (K c' p'))%Q).
  { rewrite frac_le by lia. unfold U in Au. lia. }
  rewrite frac_times in G2, G3 by lia.
  assert (E1 : (frac tat (K c p) == frac u (K c p) + frac (tat - u) (K c p))%Q).
  { rewrite <- frac_plus by lia. replace (u + (tat - u)) with tat by ring. reflexivity. }
  assert (E2 : (frac end_ (K c' p') == frac a (K c' p') + frac (end_ - a) (K c' p'))%Q).
  { rewrite <- frac_plus by lia. replace (a + (end_ - a)) with end_ by ring. reflexivity. }
  lra.
Qed.

(* The calls and the changes, in the order of their exchanges or of the lock. The state is the quota, the end of the backlog,
   the tick of the last change (no decision after a change has an earlier clock: the word is read before the clock), and in
   tokens what was admitted at ticks from t1 to t2 less its refunds, and the other charges made since less theirs. *)
Record world := { quota_now : Z * Z * Z; end_of : Z; since : Z; taken : Q; beside : Q }.
Definition level_of (w : world) (t : Z) : Q := let '(c, p, _) := quota_now w in level c p (end_of w) t.
Inductive event (t1 t2 : Z) : world -> world -> Prop :=
  (* An admission of n tokens at a tick t, as of a unit within the nanosecond that ends there: a take or a grant. *)
  | AdmitOne : forall w c p b t start n, quota_now w = (c, p, b) -> since w <= t -> t1 <= t <= t2 -> 0 <= n ->
      (t - 1) * U c p < start * p -> (Z.max (end_of w) start + K c p * n) * p <= t * U c p + K c p * b * p ->
      event t1 t2 w {| quota_now := (c, p, b); end_of := Z.max (end_of w) start + K c p * n; since := since w;
        taken := taken w + inject_Z n; beside := beside w |}
  (* Any other charge: at an earlier or a later tick, or forced beyond the burst. *)
  | ChargeOther : forall w c p b start n, quota_now w = (c, p, b) -> 0 <= n -> (0 < taken w + beside w)%Q ->
      event t1 t2 w {| quota_now := (c, p, b); end_of := Z.max (end_of w) start + K c p * n; since := since w;
        taken := taken w; beside := beside w + inject_Z n |}
  (* What was called before the first admission. *)
  | AnyBefore : forall w tat, (taken w == 0)%Q -> (beside w == 0)%Q ->
      event t1 t2 w {| quota_now := quota_now w; end_of := tat; since := since w; taken := 0; beside := 0 |}
  (* Refunds of r units of an admitted charge, of another one made since, and of one made before: see `step`. *)
  | RefundTaken : forall w c p b r, quota_now w = (c, p, b) -> 0 <= r -> (frac r (K c p) <= taken w)%Q ->
      event t1 t2 w {| quota_now := (c, p, b); end_of := end_of w - r; since := since w;
        taken := taken w - frac r (K c p); beside := beside w |}
  | RefundBeside : forall w c p b r, quota_now w = (c, p, b) -> 0 <= r -> (frac r (K c p) <= beside w)%Q ->
      event t1 t2 w {| quota_now := (c, p, b); end_of := end_of w - r; since := since w;
        taken := taken w; beside := beside w - frac r (K c p) |}
  | RefundEarlier : forall w c p b r now unit, quota_now w = (c, p, b) -> 0 <= r -> t1 <= now -> since w <= now ->
      (now - 1) * U c p < unit * p -> (frac unit (K c p) + taken w + beside w + frac r (K c p) <= frac (end_of w) (K c p))%Q ->
      event t1 t2 w {| quota_now := (c, p, b); end_of := end_of w - r; since := since w; taken := taken w; beside := beside w |}
  (* A change of the quota, at a tick that is not before those of the calls. *)
  | ChangeQuota : forall w c p b P c' p' b' P' now end_, quota_now w = (c, p, b) -> is_valid c p b -> are_of P c p b ->
      is_valid c' p' b' -> are_of P' c' p' b' -> 0 <= end_of w < 2 ^ 60 -> in_time c p now -> in_time c' p' now ->
      since w <= now -> ((0 < taken w + beside w)%Q -> t1 <= now) ->
      after c' p' now + owed keep_spent c p b c' p' b' (Z.max 0 (end_of w - units c p now)) <= 2 ^ 60 - 1 ->
      tat_carry (end_of w) keep_spent P P' now = Some end_ ->
      event t1 t2 w {| quota_now := (c', p', b'); end_of := end_; since := now; taken := taken w; beside := beside w |}.
(* A quota that is not above a rate and a burst. *)
Definition within (r : Q) (most : Z) (w : world) := let '(c, p, b) := quota_now w in
  1 <= c /\ 1 <= p /\ b <= most /\ (rate c p <= r)%Q.

(* What holds after each event. *)
Definition kept (t1 t2 : Z) (r : Q) (most : Z) (w : world) :=
  (0 <= taken w)%Q /\ (0 <= beside w)%Q /\ (taken w < inject_Z most + r * inject_Z (t2 - t1 + 1))%Q /\
  ((taken w == 0 /\ beside w == 0)%Q \/ forall t, t1 - 1 <= t -> since w <= t ->
    (taken w + beside w - r * inject_Z (t - t1 + 1) < level_of w t)%Q).

(* Later charges have a higher level. *)
Lemma charge_raises : forall c p tat start n t, 1 <= c -> 1 <= p -> 0 <= n ->
  (level c p tat t + inject_Z n <= level c p (Z.max tat start + K c p * n) t)%Q /\
  (level c p start t + inject_Z n <= level c p (Z.max tat start + K c p * n) t)%Q.
Proof.
  intros c p tat start n t Hc Hp Hn. pose proof (units_of_a_period c p Hc Hp) as (K1 & _). unfold level.
  rewrite frac_plus, frac_whole by lia.
  assert (H1 : (frac tat (K c p) <= frac (Z.max tat start) (K c p))%Q) by (rewrite frac_le by lia; apply Z.mul_le_mono_nonneg_r; lia).
  assert (H2 : (frac start (K c p) <= frac (Z.max tat start) (K c p))%Q) by (rewrite frac_le by lia; apply Z.mul_le_mono_nonneg_r; lia).
  split; lra.
Qed.
(* A product with a rate that is at most the largest. *)
Lemma rate_times : forall (x r : Q) (a b : Z), (0 <= x)%Q -> (x <= r)%Q -> a <= b -> 0 <= b ->
  (x * inject_Z a <= r * inject_Z b)%Q.
Proof.
  intros x r a b Hx Hr Hab Hb. apply Qle_trans with (x * inject_Z b)%Q.
  - rewrite (Qmult_comm x (inject_Z a)), (Qmult_comm x (inject_Z b)). apply Qmult_le_compat_r; [rewrite <- Zle_Qle; lia|exact Hx].
  - apply Qmult_le_compat_r; [exact Hr|]. change 0%Q with (inject_Z 0). rewrite <- Zle_Qle. lia.
Qed.
(* The difference of two ticks times a rate. *)
Lemma ticks : forall (x : Q) (a b : Z), (x * inject_Z (a - b) == inject_Z a * x - inject_Z b * x)%Q.
Proof. intros x a b. unfold Z.sub. rewrite inject_Z_plus, inject_Z_opp. ring. Qed.
(* A rate is not negative. *)
Lemma rate_is_positive : forall c p, 1 <= c -> 1 <= p -> (0 <= rate c p)%Q.
Proof. intros c p Hc Hp. unfold rate, frac, Qle. cbn [Qnum Qden]. lia. Qed.

(* Each event keeps what holds between calls. *)
Lemma event_keeps : forall t1 t2 r most w x, 0 <= most -> 0 <= t1 <= t2 -> kept t1 t2 r most w -> within r most w ->
  within r most x -> event t1 t2 w x -> kept t1 t2 r most x.
Proof.
  intros t1 t2 r most w x Hm H12 (HT & HB & Bound & Level) Ww Wx E.
  assert (Q0 : forall z, 0 <= z -> (0 <= inject_Z z)%Q) by (intros z H; change 0%Q with (inject_Z 0); rewrite <- Zle_Qle; exact H).
  destruct E as [w c p b t start n Eq Hs Ht Hn Hstart Hend|w c p b start n Eq Hn Began|w tat Z1 Z2|w c p b u Eq Hu Le|
    w c p b u Eq Hu Le|w c p b u now unit Eq Hu Hnow Hs Hunit Le|
    w c p b P c' p' b' P' now end_ Eq V A V' A' Htat It It' Hs Began Room Ca];
    unfold kept, within, level_of in *; cbn [quota_now end_of since taken beside] in *;
    try (rewrite Eq in *; destruct Ww as (Hc & Hp & Hb & Hr); pose proof (rate_is_positive c p Hc Hp) as R0;
      pose proof (units_of_a_period c p Hc Hp) as (K1 & _)).
  - pose proof (Q0 n Hn) as Qn.
    assert (Lv : forall t', t1 - 1 <= t' -> since w <= t' ->
      (taken w + inject_Z n + beside w - r * inject_Z (t' - t1 + 1) < level c p (Z.max (end_of w) start + K c p * n) t')%Q).
    { intros t' H1 H2. pose proof (charge_raises c p (end_of w) start n t' Hc Hp Hn) as (C1 & C2).
      destruct Level as [(Z1 & Z2)|L]; [|specialize (L t' H1 H2); lra].
      pose proof (proj2 (level_above c p start t' (t - 1) Hc Hp) Hstart) as S.
      pose proof (rate_times (rate c p) r (t' - (t - 1)) (t' - t1 + 1) R0 Hr ltac:(lia) ltac:(lia)) as M.
      rewrite ticks in M. lra. }
    split; [lra|]. split; [exact HB|]. split; [|right; exact Lv].
    specialize (Lv t ltac:(lia) Hs). pose proof (level_at_most c p _ t b Hc Hp Hend) as Top.
    assert (Hb' : (inject_Z b <= inject_Z most)%Q) by (rewrite <- Zle_Qle; exact Hb).
    pose proof (rate_times r r (t - t1 + 1) (t2 - t1 + 1) ltac:(lra) ltac:(lra) ltac:(lia) ltac:(lia)) as M. lra.
  - pose proof (Q0 n Hn) as Qn. split; [exact HT|]. split; [lra|]. split; [exact Bound|]. right. intros t' H1 H2.
    pose proof (charge_raises c p (end_of w) start n t' Hc Hp Hn) as (C1 & _).
    destruct Level as [(Z1 & Z2)|L]; [exfalso; lra|]. specialize (L t' H1 H2). lra.
  - split; [lra|]. split; [lra|]. split; [rewrite Z1 in Bound; exact Bound|left; split; reflexivity].
  - assert (F0 : (0 <= frac u (K c p))%Q) by (unfold frac, Qle; cbn [Qnum Qden]; lia).
    split; [lra|]. split; [exact HB|]. split; [lra|]. destruct Level as [(Z1 & Z2)|L]; [left; split; lra|right].
    intros t' H1 H2. specialize (L t' H1 H2). unfold level in *.
    assert (E1 : (frac (end_of w) (K c p) == frac (end_of w - u) (K c p) + frac u (K c p))%Q).
    { rewrite <- frac_plus by lia. replace (end_of w - u + u) with (end_of w) by ring. reflexivity. }
    lra.
  - assert (F0 : (0 <= frac u (K c p))%Q) by (unfold frac, Qle; cbn [Qnum Qden]; lia).
    split; [lra|]. split; [lra|]. split; [exact Bound|]. destruct Level as [(Z1 & Z2)|L]; [left; split; lra|right].
    intros t' H1 H2. specialize (L t' H1 H2). unfold level in *.
    assert (E1 : (frac (end_of w) (K c p) == frac (end_of w - u) (K c p) + frac u (K c p))%Q).
    { rewrite <- frac_plus by lia. replace (end_of w - u + u) with (end_of w) by ring. reflexivity. }
    lra.
  - split; [exact HT|]. split; [exact HB|]. split; [exact Bound|]. destruct Level as [(Z1 & Z2)|L]; [left; split; lra|right].
    intros t' H1 H2. unfold level in *.
    assert (E1 : (frac (end_of w) (K c p) == frac (end_of w - u) (K c p) + frac u (K c p))%Q).
    { rewrite <- frac_plus by lia. replace (end_of w - u + u) with (end_of w) by ring. reflexivity. }
    pose proof (proj2 (level_above c p unit t' (now - 1) Hc Hp) Hunit) as S. unfold level in S.
    pose proof (rate_times (rate c p) r (t' - (now - 1)) (t' - t1 + 1) R0 Hr ltac:(lia) ltac:(lia)) as M.
    rewrite ticks in M. lra.
  - destruct Wx as (Hc' & Hp' & Hb' & Hr'). pose proof (rate_is_positive c' p' Hc' Hp') as R0'.
    split; [exact HT|]. split; [exact HB|]. split; [exact Bound|]. destruct Level as [(Z1 & Z2)|L]; [left; split; lra|].
    destruct (Qlt_le_dec 0 (taken w + beside w)) as [Some_|None_]; [|left; split; lra]. right. intros t' H1 H2.
    pose proof (keep_spent_lowers_no_level c p b P c' p' b' P' (end_of w) now end_ V A V' A' Htat It It' Room Ca) as Kp.
    specialize (L now ltac:(specialize (Began Some_); lia) Hs). unfold level in *.
    pose proof (rate_times (rate c' p') r (t' - now) (t' - now) R0' Hr' ltac:(lia) ltac:(lia)) as M.
    rewrite !ticks in M. replace (t' - t1 + 1) with (t' - (t1 - 1)) by ring. replace (now - t1 + 1) with (now - (t1 - 1)) in L by ring.
    rewrite ticks in L |- *. lra.
Qed.

(* Any calls between any changes that keep the spent number: at ticks from t1 to t2, fewer tokens than the largest burst and
   the largest rate * (t2 - t1 + 1 ns) are admitted and not refunded. *)
Inductive all_within (t1 t2 : Z) (r : Q) (most : Z) : world -> world -> Prop :=
  | NoneWithin : forall w, within r most w -> all_within t1 t2 r most w w
  | MoreWithin : forall w x y, all_within t1 t2 r most w x -> event t1 t2 x y -> within r most y ->
      all_within t1 t2 r most w y.
(* Any calls between any changes admit, at ticks from t1 to t2, less than the largest burst and the largest rate
   times the interval and a nanosecond. *)
Theorem keep_spent_bound : forall t1 t2 r most w x, 0 <= most -> 0 <= t1 <= t2 -> (0 < r)%Q ->
  (taken w == 0)%Q -> (beside w == 0)%Q -> all_within t1 t2 r most w x ->
  (taken x < inject_Z most + r * inject_Z (t2 - t1 + 1))%Q.
Proof.
  intros t1 t2 r most w x Hm H12 Hr Z1 Z2 H. assert (KW : kept t1 t2 r most x /\ within r most x); [|apply KW].
  induction H as [w W|w y z H IH E W].
  - split; [|exact W]. unfold kept.
    assert (P1 : (0 <= inject_Z most)%Q) by (change 0%Q with (inject_Z 0); rewrite <- Zle_Qle; exact Hm).
    assert (P2 : (0 < r * inject_Z (t2 - t1 + 1))%Q).
    { apply Qmult_lt_0_compat; [exact Hr|]. change 0%Q with (inject_Z 0). rewrite <- Zlt_Qlt. lia. }
    split; [lra|]. split; [lra|]. split; [lra|]. left. split; [exact Z1|exact Z2].
  - destruct (IH Z1 Z2) as (Kp & Wy). split; [|exact W]. exact (event_keeps t1 t2 r most y z Hm H12 Kp Wy W E).
Qed.

(* A take and a grant at a tick before the end of time are such admissions. *)
Theorem a_take_is_such_an_admission : forall c p b P tat t n e, is_valid c p b -> are_of P c p b -> in_time c p t ->
  0 <= tat < 2 ^ 60 -> 0 <= n -> K c p * n <= K c p * b -> tat_take tat P (units c p t) (K c p * n) = Some (inl e) ->
  e = Z.max tat (units c p t) + K c p * n /\ (t - 1) * U c p < units c p t * p /\ e * p <= t * U c p + K c p * b * p.
Proof.
  intros c p b P tat t n e V A (Ht & Lu) Htat Hn Le T. pose proof (burst_fits c p b V) as BF.
  destruct V as (Hc & Hp & _). pose proof (units_of_a_period c p Hc ltac:(lia)) as (K1 & KU & _).
  assert (Un : units c p t = t * U c p / p) by (unfold units; rewrite (Z.min_l t) by lia; apply Z.min_l; lia).
  assert (Low : 0 <= units c p t) by (rewrite Un; apply Z.div_pos; [apply Z.mul_nonneg_nonneg; lia|lia]).
  assert (X : last_unit = 1080863910568919039) by reflexivity.
  assert (BT : params_burst_tolerance P = K c p * b) by apply A.
  assert (Pr : 0 <= K c p * n) by (apply Z.mul_nonneg_nonneg; lia).
  rewrite take_is_exact in T by (rewrite ?BT; lia). cbv zeta in T. rewrite BT in T.
  destruct (_ <=? _) eqn:F in T; [|discriminate]. inversion T. apply Z.leb_le in F.
  pose proof (Z.div_mod (t * U c p) p ltac:(lia)) as D. pose proof (Z.mod_pos_bound (t * U c p) p ltac:(lia)) as M.
  rewrite <- Un in D. split; [reflexivity|]. split; [lia|].
  apply (Z.mul_le_mono_nonneg_r _ _ p) in F; [|lia]. lia.
Qed.
(* A late grant begins within the nanosecond of its tick, as the event of a grant assumes. *)
Theorem a_grant_is_such_an_admission : forall c p b P tat t start, is_valid c p b -> are_of P c p b -> in_time c p t ->
  tat_grant_start tat P t = Some start -> (t - 1) * U c p < start * p /\ start * p <= t * U c p.
Proof.
  intros c p b P tat t start V A (Ht & Lu) G. assert (X : last_tick = 288230376151711743) by reflexivity.
  destruct (grant_start_is_exact c p b P tat t V A ltac:(lia)) as (s & G' & S). rewrite G in G'. inversion G'; subst s.
  destruct V as (Hc & Hp & _). pose proof (units_of_a_period c p Hc ltac:(lia)) as (K1 & KU & _).
  assert (Un : forall s, s <= t -> units c p s = s * U c p / p).
  { intros s Hs. unfold units. rewrite (Z.min_l s) by lia. apply Z.min_l.
    assert (s * U c p / p <= t * U c p / p) by (apply Z.div_le_mono; [lia|apply Z.mul_le_mono_nonneg_r; lia]). lia. }
  rewrite !Un in S by lia.
  assert (D : forall s, s * U c p / p * p <= s * U c p < s * U c p / p * p + p).
  { intro s. pose proof (Z.div_mod (s * U c p) p ltac:(lia)). pose proof (Z.mod_pos_bound (s * U c p) p ltac:(lia)). lia. }
  pose proof (D t) as Dt. destruct S as [S|(S & S1 & S2)].
  - subst start. lia.
  - subst start. pose proof (D (Z.max 0 (t - 1))) as D1.
    assert (M : (t - 1) * U c p <= Z.max 0 (t - 1) * U c p) by (apply Z.mul_le_mono_nonneg_r; lia).
    set (q := Z.max 0 (t - 1) * U c p / p) in *.
    assert (N : (q + 1) * p <= tat * p) by (apply Z.mul_le_mono_nonneg_r; lia).
    assert (O : tat * p <= t * U c p / p * p) by (apply Z.mul_le_mono_nonneg_r; lia). lia.
Qed.
Print Assumptions keep_spent_bound.
Print Assumptions proportional_raises_nothing.
