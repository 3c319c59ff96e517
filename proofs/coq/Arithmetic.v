(* The functions of a fraction, exactly as the compiler has them: `fraction` never panics and is the quotient of 2^128,
   rounded up; `part` never panics and is the product with it, rounded down; and together they are the exact floor of
   number * numerator / denominator. *)
Require Import ZArith Lia Psatz Bool.
Require Import Machine Code.
Open Scope Z_scope.

(* A number of a type stays the same in it. *)
Lemma wrap_in : forall t x, least t <= x <= greatest t -> wrap t x = x.
Proof.
  intros t x H. unfold wrap. destruct (fits t x); [reflexivity|]. rewrite Z.mod_small; lia.
Qed.
(* An unsigned number wraps to its remainder. *)
Lemma wrap_is_mod : forall x, 0 <= x -> wrap u64 x = x mod 2 ^ 64.
Proof.
  intros x H. unfold wrap, fits. cbn [least greatest u64]. destruct ((0 <=? x) && (x <=? 18446744073709551615)) eqn:F.
  - apply andb_true_iff in F. destruct F as [_ F]. apply Z.leb_le in F. symmetry. apply Z.mod_small. lia.
  - rewrite Z.sub_0_r, Z.add_0_r. reflexivity.
Qed.
(* A number that fits into a u64 does not wrap. *)
Lemma wrap_u64 : forall x, 0 <= x < 2 ^ 64 -> wrap u64 x = x.
Proof. intros x H. apply wrap_in. cbn [least greatest u64]. lia. Qed.
(* A number that fits into a u128 does not wrap. *)
Lemma wrap_u128 : forall x, 0 <= x < 2 ^ 128 -> wrap u128 x = x.
Proof. intros x H. apply wrap_in. cbn [least greatest u128]. lia. Qed.
(* A number that fits into an i64 does not wrap. *)
Lemma wrap_i64 : forall x, - 2 ^ 63 <= x < 2 ^ 63 -> wrap i64 x = x.
Proof. intros x H. apply wrap_in. cbn [least greatest i64]. lia. Qed.
(* No check fails for a result that is in its type. *)
Lemma checked_in : forall t x, least t <= x <= greatest t -> checked t x = (x, false).
Proof.
  intros t x H. unfold checked. rewrite wrap_in by exact H. f_equal. apply negb_false_iff. unfold fits.
  apply andb_true_iff; split; apply Z.leb_le; lia.
Qed.
(* The check of a u64 does not fail for a number that fits. *)
Lemma checked_u64 : forall x, 0 <= x < 2 ^ 64 -> checked u64 x = (x, false).
Proof. intros x H. apply checked_in. cbn [least greatest u64]. lia. Qed.
(* The check of a u128 does not fail for a number that fits. *)
Lemma checked_u128 : forall x, 0 <= x < 2 ^ 128 -> checked u128 x = (x, false).
Proof. intros x H. apply checked_in. cbn [least greatest u128]. lia. Qed.
(* The check of an i64 does not fail for a number that fits. *)
Lemma checked_i64 : forall x, - 2 ^ 63 <= x < 2 ^ 63 -> checked i64 x = (x, false).
Proof. intros x H. apply checked_in. cbn [least greatest i64]. lia. Qed.

(* A product of bounded numbers. *)
Lemma product : forall a b m k, 0 <= a < m -> 0 <= b < k -> 0 <= a * b <= (m - 1) * (k - 1).
Proof. intros a b m k Ha Hb. split; [apply Z.mul_nonneg_nonneg; lia|apply Z.mul_le_mono_nonneg; lia]. Qed.

(* A division that is rounded up. *)
Lemma ceil_spec : forall a b, 0 < b -> ((a + b - 1) / b - 1) * b < a <= (a + b - 1) / b * b.
Proof.
  intros a b Hb. pose proof (Z.div_mod (a + b - 1) b ltac:(lia)).
  pose proof (Z.mod_pos_bound (a + b - 1) b Hb). lia.
Qed.

(* One digit of the long division, of 32 bits. *)
Lemma digit : forall r den, 0 <= r < den -> den <= 2 ^ 65 ->
  0 <= r * 2 ^ 32 < 2 ^ 128 /\ 0 <= r * 2 ^ 32 / den < 2 ^ 32 /\ 0 <= r * 2 ^ 32 mod den < den /\
  r * 2 ^ 32 = den * (r * 2 ^ 32 / den) + r * 2 ^ 32 mod den.
Proof.
  intros r den Hr Hd. split; [lia|]. split; [|split].
  - split; [apply Z.div_pos; lia|]. apply Z.div_lt_upper_bound; lia.
  - apply Z.mod_pos_bound; lia.
  - apply Z.div_mod; lia.
Qed.

(* What a fraction is: the least number of parts of 2^128 that is not below the quotient. *)
Definition is_fraction (f : Z * Z) (num den : Z) :=
  0 <= fst f < 2 ^ 64 /\ 0 <= snd f < 2 ^ 64 /\
  num * 2 ^ 128 <= (fst f * 2 ^ 64 + snd f) * den < num * 2 ^ 128 + den.

(* `fraction` never panics, and is the quotient, rounded up. *)
Theorem fraction_is_the_ceiling : forall num den, 0 <= num < den -> den <= 2 ^ 65 ->
  exists f, fraction num den = Some f /\ is_fraction f num den.
Proof.
  intros num den Hn Hd.
  destruct (digit num den Hn Hd) as (W1 & Hq1 & Hr1 & E1).
  set (q1 := num * 2 ^ 32 / den) in *. set (r1 := (num * 2 ^ 32) mod den) in *.
  destruct (digit r1 den Hr1 Hd) as (W2 & Hq2 & Hr2 & E2).
  set (q2 := r1 * 2 ^ 32 / den) in *. set (r2 := (r1 * 2 ^ 32) mod den) in *.
  destruct (digit r2 den Hr2 Hd) as (W3 & Hq3 & Hr3 & E3).
  set (q3 := r2 * 2 ^ 32 / den) in *. set (r3 := (r2 * 2 ^ 32) mod den) in *.
  destruct (digit r3 den Hr3 Hd) as (W4 & _).
  set (q4 := (r3 * 2 ^ 32 + den - 1) / den).
  pose proof (ceil_spec (r3 * 2 ^ 32) den ltac:(lia)) as E4. fold q4 in E4.
  assert (Hq4 : 0 <= q4 <= 2 ^ 32).
  { unfold q4. split; [apply Z.div_pos; lia|]. apply Z.lt_succ_r. apply Z.div_lt_upper_bound; lia. }
  set (H := q1 * 2 ^ 32 + q2) in *. set (L := q3 * 2 ^ 32 + q4) in *.
  assert (HH : 0 <= H < 2 ^ 64) by (unfold H; lia).
  assert (HL : 0 <= L <= 2 ^ 64) by (unfold L; lia).
  assert (V : num * 2 ^ 128 <= (H * 2 ^ 64 + L) * den < num * 2 ^ 128 + den).
  { unfold H, L. clear Hq1 Hq2 Hq3 Hq4 W1 W2 W3 W4 Hr1 Hr2. lia. }
  assert (Top : H * 2 ^ 64 + L < 2 ^ 128).
  { apply Z.mul_lt_mono_pos_r with den; [lia|]. clear - V Hn Hd. lia. }
  assert (C : 0 <= L / 2 ^ 64 <= 1).
  { split; [apply Z.div_pos; lia|]. apply Z.lt_succ_r. apply Z.div_lt_upper_bound; lia. }
  assert (Dm : L = 2 ^ 64 * (L / 2 ^ 64) + L mod 2 ^ 64) by (apply Z.div_mod; lia).
  assert (Mb : 0 <= L mod 2 ^ 64 < 2 ^ 64) by (apply Z.mod_pos_bound; lia).
  assert (Fit : 0 <= H + L / 2 ^ 64 < 2 ^ 64) by lia.
  assert (Nz : (den =? 0) = false) by (apply Z.eqb_neq; lia).
  exists (H + L / 2 ^ 64, L mod 2 ^ 64). split.
  - unfold fraction. cbv zeta. change (wrap u32 32 <? 128) with true. change (wrap u32 64 <? 128) with true.
    unfold shl, shr, div_ceil. rewrite ?Z.shiftl_mul_pow2 by lia. rewrite Nz. cbn [negb bind].
    rewrite (wrap_u128 (num * 2 ^ 32)) by exact W1. fold q1. fold r1.
    rewrite (wrap_u128 (r1 * 2 ^ 32)) by exact W2. fold q2. fold r2.
    rewrite (wrap_u128 (r2 * 2 ^ 32)) by exact W3. fold q3. fold r3.
    rewrite (wrap_u128 (r3 * 2 ^ 32)) by exact W4. fold q4.
    rewrite (wrap_u128 (q1 * 2 ^ 32)) by lia.
    rewrite (wrap_u128 (q3 * 2 ^ 32)) by lia.
    fold H. fold L.
    rewrite (checked_u128 H) by lia. rewrite (checked_u128 L) by lia. cbn [fst snd negb].
    rewrite (wrap_u64 H) by exact HH. rewrite Z.shiftr_div_pow2 by lia. rewrite (wrap_u64 (L / 2 ^ 64)) by lia.
    rewrite (checked_u64 (H + L / 2 ^ 64)) by exact Fit. cbn [fst snd negb].
    replace (wrap u64 L) with (L mod 2 ^ 64) by (symmetry; apply wrap_is_mod; lia).
    reflexivity.
  - unfold is_fraction. cbn [fst snd]. split; [lia|]. split; [lia|].
    replace ((H + L / 2 ^ 64) * 2 ^ 64 + L mod 2 ^ 64) with (H * 2 ^ 64 + L) by lia. exact V.
Qed.

(* `part` never panics, and is the floor of the product of 192 bits. *)
Theorem part_is_the_floor : forall n f, 0 <= n < 2 ^ 64 -> 0 <= fst f < 2 ^ 64 -> 0 <= snd f < 2 ^ 64 ->
  part n f = Some (n * (fst f * 2 ^ 64 + snd f) / 2 ^ 128).
Proof.
  intros n [f1 f0] Hn H1 H0. cbn [fst snd] in *.
  pose proof (product n f0 _ _ Hn H0) as P0. pose proof (product n f1 _ _ Hn H1) as P1.
  assert (A : 0 <= n * f0 < 2 ^ 128) by lia.
  assert (B : 0 <= n * f1 < 2 ^ 128) by lia.
  assert (D : n * f0 = 2 ^ 64 * (n * f0 / 2 ^ 64) + (n * f0) mod 2 ^ 64) by (apply Z.div_mod; lia).
  assert (M : 0 <= (n * f0) mod 2 ^ 64 < 2 ^ 64) by (apply Z.mod_pos_bound; lia).
  unfold part. cbv zeta. change (wrap u32 64 <? 128) with true. change (1 <? 2) with true. change (0 <? 2) with true.
  unfold element, shr. cbn [fst snd Z.eqb]. rewrite ?Z.shiftr_div_pow2 by lia.
  rewrite !(wrap_u128 n), !(wrap_u128 f0), !(wrap_u128 f1) by lia.
  rewrite (checked_u128 (n * f0)) by exact A. rewrite (checked_u128 (n * f1)) by exact B. cbn [fst snd negb].
  set (l := n * f0 / 2 ^ 64) in *. set (m := (n * f0) mod 2 ^ 64) in *.
  assert (Lb : 0 <= l < 2 ^ 64) by lia.
  assert (S : 0 <= n * f1 + l < 2 ^ 128) by lia.
  rewrite (checked_u128 (n * f1 + l)) by exact S. cbn [fst snd negb].
  assert (Q : (n * f1 + l) / 2 ^ 64 = n * (f1 * 2 ^ 64 + f0) / 2 ^ 128).
  { replace (2 ^ 128) with (2 ^ 64 * 2 ^ 64) by reflexivity.
    rewrite <- Z.div_div by lia. f_equal.
    replace (n * (f1 * 2 ^ 64 + f0)) with ((n * f1 + l) * 2 ^ 64 + m) by (rewrite Z.mul_add_distr_l; lia).
    apply Z.div_unique with m; [left; lia | ring]. }
  rewrite wrap_u64; [f_equal; exact Q|].
  split; [apply Z.div_pos; lia|]. apply Z.div_lt_upper_bound; lia.
Qed.

(* A number times a fraction is the exact floor, for every number below 2^63 and every denominator up to 2^65. *)
Theorem part_is_exact : forall n f num den,
  0 <= n < 2 ^ 63 -> 0 <= num < den -> den <= 2 ^ 65 -> is_fraction f num den -> part n f = Some (n * num / den).
Proof.
  intros n f num den Hn Hnum Hden (H1 & H0 & HF).
  rewrite part_is_the_floor; [|lia|exact H1|exact H0]. f_equal.
  set (g := fst f * 2 ^ 64 + snd f) in *.
  pose proof (Z.div_mod (n * num) den ltac:(lia)) as Dm.
  pose proof (Z.mod_pos_bound (n * num) den ltac:(lia)) as Mb.
  set (q := n * num / den) in *. set (r := n * num mod den) in *.
  symmetry. apply Z.div_unique with (n * g - 2 ^ 128 * q); [left|ring].
  assert (E : exists e, g * den = num * 2 ^ 128 + e /\ 0 <= e < den) by (exists (g * den - num * 2 ^ 128); lia).
  destruct E as (e & Ef & He).
  assert (K : den * (n * g - 2 ^ 128 * q) = r * 2 ^ 128 + n * e).
  { replace (den * (n * g - 2 ^ 128 * q)) with (n * (g * den) - 2 ^ 128 * (den * q)) by ring.
    rewrite Ef. replace (den * q) with (n * num - r) by lia. ring. }
  pose proof (product n e (2 ^ 63) (2 ^ 65) ltac:(lia) ltac:(lia)) as Pe.
  assert (Nn : 0 <= r * 2 ^ 128 + n * e) by lia.
  assert (Up : r * 2 ^ 128 + n * e < den * 2 ^ 128).
  { assert (Hr : r <= den - 1) by lia. clear - Hr Pe. lia. }
  split; [apply Z.mul_nonneg_cancel_l with den; lia|].
  apply Z.mul_lt_mono_pos_l with den; [lia|]. rewrite K. exact Up.
Qed.
