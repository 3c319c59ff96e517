(* The integers that the scripts on a server keep in doubles (crates/tollgate-redis/src/lua/debt.lua). A double is exact up to
   2^53, and the sum or product of two is the exact one, rounded. A debt is at most 2^52; what is paid off or charged may be
   beyond 2^53, and is then rounded: but it is larger than the debt that it is taken from, or than the bound of the sum, so
   the result is exact. The scripts are not translated: these are lemmas about the lines of the same names. *)
Require Import ZArith Lia.
Open Scope Z_scope.

(* A rounding of whole numbers: it keeps their order, and is exact up to 2^53. *)
Definition is_rounding (rnd : Z -> Z) :=
  (forall x y, x <= y -> rnd x <= rnd y) /\ (forall x, - 2 ^ 53 <= x <= 2 ^ 53 -> rnd x = x).
(* `MOST`. *)
Definition most := 2 ^ 52.

(* What `Rule::of` lets pass for a debt without steps: the count, the units of a token, and those of the burst. *)
Definition fits (count unit burst : Z) := 1 <= count <= most /\ 1 <= unit <= most /\ 1 <= burst <= most /\ burst * unit <= most.

(* `open`: max(0, d - paid), with paid = (now - t) * count, whatever its size. *)
Theorem a_debt_is_paid_off_exactly : forall rnd d at_ from count, is_rounding rnd -> 0 <= d <= most -> 1 <= count <= most ->
  0 <= from <= at_ -> at_ <= 2 ^ 53 ->
  Z.max 0 (rnd (d - rnd (rnd (at_ - from) * count))) = Z.max 0 (d - (at_ - from) * count).
Proof.
  intros rnd d at_ from count (Up & Ex) Hd Hc Hf Ha. unfold most in *. rewrite (Ex (at_ - from)) by lia.
  assert (X : 0 <= (at_ - from) * count) by (apply Z.mul_nonneg_nonneg; lia). set (x := (at_ - from) * count) in *.
  destruct (Z_le_gt_dec x (2 ^ 53)) as [L|G].
  - rewrite (Ex x) by lia. rewrite Ex by lia. reflexivity.
  - pose proof (Up (2 ^ 53) x ltac:(lia)) as R. rewrite Ex in R by lia.
    pose proof (Up (d - rnd x) 0 ltac:(lia)) as R0. rewrite (Ex 0) in R0 by lia. lia.
Qed.

(* `charge`: min(MOST, d + n * unit), for any n, also one beyond the burst. *)
Theorem a_debt_grows_exactly : forall rnd d n unit, is_rounding rnd -> 0 <= d <= most -> 0 <= n -> 1 <= unit ->
  Z.min most (rnd (d + rnd (n * unit))) = Z.min most (d + n * unit).
Proof.
  intros rnd d n unit (Up & Ex) Hd Hn Hu. unfold most in *.
  assert (X : 0 <= n * unit) by (apply Z.mul_nonneg_nonneg; lia). set (x := n * unit) in *.
  destruct (Z_le_gt_dec x (2 ^ 52)) as [L|G].
  - rewrite (Ex x) by lia. rewrite Ex by lia. reflexivity.
  - pose proof (Up (2 ^ 52) x ltac:(lia)) as R. rewrite Ex in R by lia.
    pose proof (Up (2 ^ 52) (d + rnd x) ltac:(lia)) as R1. rewrite Ex in R1 by lia. lia.
Qed.

(* `wait`: d + n * unit - most, for a call within the burst. *)
Theorem a_wait_is_exact : forall rnd d n count unit burst, is_rounding rnd -> fits count unit burst -> 0 <= d <= most ->
  0 <= n <= burst -> rnd (rnd (d + rnd (n * unit)) - rnd (burst * unit)) = d + n * unit - burst * unit.
Proof.
  intros rnd d n count unit burst (Up & Ex) (_ & Hu & Hb & Hm) Hd Hn. unfold most in *.
  assert (X : 0 <= n * unit <= burst * unit) by (split; [apply Z.mul_nonneg_nonneg|apply Z.mul_le_mono_nonneg_r]; lia).
  rewrite (Ex (n * unit)) by lia. rewrite (Ex (burst * unit)) by lia. rewrite (Ex (d + n * unit)) by lia.
  apply Ex. lia.
Qed.
Print Assumptions a_debt_is_paid_off_exactly.
