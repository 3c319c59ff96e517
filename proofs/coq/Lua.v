(* The integers that the scripts on a server keep in doubles (crates/tollgate-redis/src/lua). A double is exact up to
   2^53, and the sum or product of two is the exact one, rounded. A debt is at most 2^52; what is paid off or charged may be
   beyond 2^53, and is then rounded: but it is larger than the debt that it is taken from, or than the bound of the sum, so
   the result is exact. The same holds for the windows of window.lua and the slots of log.lua. The scripts are not translated:
   these are lemmas about the lines of the same names. All times are of a server's clock up to 2^52 us, the year 2112. *)
Require Import ZArith Lia QArith Qround Lqa.
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

(* `div_down` and `div_up` in prelude.lua: the quotient of two whole numbers, rounded to a double, and then down or up. A double
   keeps the order of numbers, has all whole ones up to 2^53, and is off by at most a 2^53rd of the number. *)
Definition is_rounding_of_quotients (rnd : Q -> Q) :=
  (forall x y : Q, (x <= y)%Q -> (rnd x <= rnd y)%Q) /\ (forall n : Z, 0 <= n <= 2 ^ 53 -> (rnd (inject_Z n) == inject_Z n)%Q) /\
  (forall x : Q, (0 <= x)%Q -> (x - x * (1 # 9007199254740992) <= rnd x <= x + x * (1 # 9007199254740992))%Q).
(* A quotient of whole numbers. *)
Definition quotient (x y : Z) : Q := x # Z.to_pos y.

(* A whole number, and how far a quotient is from the next ones: by at least one part in the divisor. *)
Lemma quotient_bounds : forall x y a, 0 < y -> (inject_Z a <= quotient x y)%Q <-> a * y <= x.
Proof. intros x y a Hy. unfold quotient, Qle, inject_Z. cbn [Qnum Qden]. rewrite Z2Pos.id by lia. lia. Qed.
(* A quotient is at most a whole number if that number times the divisor is at least the dividend. *)
Lemma quotient_above : forall x y a, 0 < y -> (quotient x y <= inject_Z a)%Q <-> x <= a * y.
Proof. intros x y a Hy. unfold quotient, Qle, inject_Z. cbn [Qnum Qden]. rewrite Z2Pos.id by lia. lia. Qed.
(* The error is less than one part in the divisor. *)
Lemma error_is_small : forall x y, 0 < y -> 0 <= x < 2 ^ 53 -> (quotient x y * (1 # 9007199254740992) < quotient 1 y)%Q.
Proof.
  intros x y Hy Hx. unfold quotient, Qlt, Qmult. cbn [Qnum Qden]. rewrite Pos2Z.inj_mul, Z2Pos.id by lia.
  assert (x * y < 9007199254740992 * y) by (apply Z.mul_lt_mono_pos_r; lia). lia.
Qed.
(* Quotients by one divisor are added by their dividends. *)
Lemma quotient_plus : forall x z y, 0 < y -> (quotient x y + quotient z y == quotient (x + z) y)%Q.
Proof. intros x z y Hy. unfold quotient, Qeq, Qplus. cbn [Qnum Qden]. rewrite ?Pos2Z.inj_mul. ring. Qed.

(* `div_down` of the scripts is the quotient rounded down, although a double has rounded it before. *)
Theorem div_down_is_exact : forall rnd x y, is_rounding_of_quotients rnd -> 0 <= x < 2 ^ 53 -> 0 < y ->
  Qfloor (rnd (quotient x y)) = x / y.
Proof.
  intros rnd x y (Up & Ex & Er) Hx Hy. pose proof (Z.div_mod x y ltac:(lia)) as D. pose proof (Z.mod_pos_bound x y Hy) as M.
  assert (Q0 : 0 <= x / y) by (apply Z.div_pos; lia).
  assert (Q1 : x / y <= x) by (apply Z.div_le_upper_bound; [lia|]; assert (1 * x <= y * x) by (apply Z.mul_le_mono_nonneg_r; lia); lia).
  set (q := x / y) in *.
  assert (Low : (inject_Z q <= rnd (quotient x y))%Q).
  { apply Qle_trans with (rnd (inject_Z q)); [rewrite Ex by lia; apply Qle_refl|]. apply Up. apply quotient_bounds; lia. }
  assert (High : (rnd (quotient x y) < inject_Z (q + 1))%Q).
  { assert (P : (0 <= quotient x y)%Q) by (change 0%Q with (inject_Z 0); apply quotient_bounds; lia).
    destruct (Er _ P) as (_ & E). pose proof (error_is_small x y Hy Hx) as S.
    assert (T : (quotient (x + 1) y <= inject_Z (q + 1))%Q) by (apply quotient_above; lia).
    pose proof (quotient_plus x 1 y Hy) as Pl. lra. }
  assert (F1 : q <= Qfloor (rnd (quotient x y))).
  { rewrite <- (Qfloor_Z q). apply Qfloor_resp_le. exact Low. }
  assert (F2 : (inject_Z (Qfloor (rnd (quotient x y))) < inject_Z (q + 1))%Q).
  { apply Qle_lt_trans with (rnd (quotient x y)); [apply Qfloor_le|exact High]. }
  rewrite <- Zlt_Qlt in F2. lia.
Qed.
(* `div_up` of the scripts is the quotient rounded up. *)
Theorem div_up_is_exact : forall rnd x y, is_rounding_of_quotients rnd -> 0 <= x < 2 ^ 53 -> 0 < y ->
  Qceiling (rnd (quotient x y)) = (x + y - 1) / y.
Proof.
  intros rnd x y (Up & Ex & Er) Hx Hy. pose proof (Z.div_mod (x + y - 1) y ltac:(lia)) as D.
  pose proof (Z.mod_pos_bound (x + y - 1) y Hy) as M. assert (Q0 : 0 <= (x + y - 1) / y) by (apply Z.div_pos; lia).
  set (k := (x + y - 1) / y) in *.
  assert (Q1 : k <= x).
  { destruct (Z.eq_dec x 0) as [->|N]; [apply Z.lt_succ_r; apply Z.div_lt_upper_bound; lia|].
    apply Z.lt_succ_r. apply Z.div_lt_upper_bound; [lia|]. assert (1 * x <= y * x) by (apply Z.mul_le_mono_nonneg_r; lia). lia. }
  assert (High : (rnd (quotient x y) <= inject_Z k)%Q).
  { apply Qle_trans with (rnd (inject_Z k)); [|rewrite Ex by lia; apply Qle_refl]. apply Up. apply quotient_above; lia. }
  assert (Low : (inject_Z (k - 1) < rnd (quotient x y))%Q).
  { assert (P : (0 <= quotient x y)%Q) by (change 0%Q with (inject_Z 0); apply quotient_bounds; lia).
    destruct (Er _ P) as (E & _). pose proof (error_is_small x y Hy Hx) as S.
    assert (T : (inject_Z (k - 1) <= quotient (x - 1) y)%Q) by (apply quotient_bounds; lia).
    pose proof (quotient_plus (x - 1) 1 y Hy) as Pl. replace (x - 1 + 1) with x in Pl by ring. lra. }
  assert (F1 : Qceiling (rnd (quotient x y)) <= k).
  { rewrite <- (Qceiling_Z k). apply Qceiling_resp_le. exact High. }
  assert (F2 : (inject_Z (k - 1) < inject_Z (Qceiling (rnd (quotient x y))))%Q).
  { apply Qlt_le_trans with (rnd (quotient x y)); [exact Low|apply Qle_ceiling]. }
  rewrite <- Zlt_Qlt in F2. lia.
Qed.

(* What `Rule::of` lets pass for a window, and the microseconds up to which a time is exact. *)
Definition window_fits (count period : Z) := 1 <= count /\ 1 <= period /\ count * period <= most.

(* `later` in window.lua: max(0, count - (windows - 1) * most), whatever the number of windows. *)
Theorem a_window_takes_its_part_exactly : forall rnd n windows count, is_rounding rnd -> 0 <= n <= most -> 1 <= count <= most ->
  1 <= windows <= 2 ^ 53 ->
  Z.max 0 (rnd (n - rnd (rnd (windows - 1) * count))) = Z.max 0 (n - (windows - 1) * count).
Proof.
  intros rnd n windows count R Hn Hc Hw. exact (a_debt_is_paid_off_exactly rnd n windows 1 count R Hn Hc ltac:(lia) ltac:(lia)).
Qed.

(* `faded` and `free`: the room, and a product with the time in the window. What is divided is below 2^53. *)
Theorem a_fading_part_is_exact : forall rnd count period used n before elapsed, is_rounding rnd -> window_fits count period ->
  0 <= used <= most -> 0 <= n <= count -> 0 <= before <= count -> 0 <= elapsed <= period ->
  let free := count - used - n in rnd (rnd (count - used) - n) = free /\
  (0 <= free < before -> rnd (rnd (before - free) * period) = (before - free) * period /\ (before - free) * period < 2 ^ 53) /\
  rnd (before * rnd (period - elapsed)) = before * (period - elapsed) /\ before * (period - elapsed) < 2 ^ 53.
Proof.
  intros rnd count period used n before elapsed (Up & Ex) (Hc & Hp & F) Hu Hn Hb He free. unfold most in *.
  assert (C1 : count * 1 <= count * period) by (apply Z.mul_le_mono_nonneg_l; lia).
  assert (C2 : 1 * period <= count * period) by (apply Z.mul_le_mono_nonneg_r; lia).
  assert (B : 0 <= before * (period - elapsed) <= count * period).
  { split; [apply Z.mul_nonneg_nonneg; lia|apply Z.mul_le_mono_nonneg; lia]. }
  split; [rewrite (Ex (count - used)) by lia; apply Ex; lia|]. split.
  - intro Hf. assert (0 <= (before - free) * period <= count * period).
    { split; [apply Z.mul_nonneg_nonneg; lia|apply Z.mul_le_mono_nonneg; lia]. }
    rewrite (Ex (before - free)) by lia. rewrite Ex by lia. lia.
  - rewrite (Ex (period - elapsed)) by lia. rewrite Ex by lia. lia.
Qed.

(* `wait`: min(MOST, max(0, from + x + after)), where x is the time of the windows that an excess fills, whatever that is. *)
Theorem a_wait_for_windows_is_exact : forall rnd from x after, is_rounding rnd -> - most <= from <= most -> 0 <= x ->
  0 <= after <= most ->
  Z.min most (Z.max 0 (rnd (rnd (from + rnd x) + after))) = Z.min most (Z.max 0 (from + x + after)).
Proof.
  intros rnd from x after (Up & Ex) Hf Hx Ha. unfold most in *.
  assert (Far : forall y, 2 ^ 52 <= y -> 2 ^ 52 <= rnd y).
  { intros y H. pose proof (Up (2 ^ 52) y H) as R. rewrite Ex in R by lia. exact R. }
  destruct (Z_le_gt_dec x (2 ^ 53)) as [L|G].
  - rewrite (Ex x) by lia. destruct (Z_le_gt_dec (from + x) (2 ^ 52)) as [L1|G1].
    + rewrite (Ex (from + x)) by lia. rewrite Ex by lia. reflexivity.
    + pose proof (Far (from + x) ltac:(lia)) as R. pose proof (Far (rnd (from + x) + after) ltac:(lia)). lia.
  - pose proof (Up (2 ^ 53) x ltac:(lia)) as R. rewrite Ex in R by lia. pose proof (Far (from + rnd x) ltac:(lia)) as R1.
    pose proof (Far (rnd (from + rnd x) + after) ltac:(lia)). lia.
Qed.
(* `reset`: min(MOST, x + start - now). *)
Theorem a_reset_of_windows_is_exact : forall rnd x start now, is_rounding rnd -> 0 <= x -> 0 <= start <= most ->
  0 <= now <= most -> Z.min most (rnd (rnd (rnd x + start) - now)) = Z.min most (x + start - now).
Proof.
  intros rnd x start now (Up & Ex) Hx Hs Hn. unfold most in *.
  assert (Far : forall y, 2 ^ 53 <= y -> 2 ^ 53 <= rnd y).
  { intros y H. pose proof (Up (2 ^ 53) y H) as R. rewrite Ex in R by lia. exact R. }
  assert (Near : forall y, 2 ^ 52 <= y -> 2 ^ 52 <= rnd y).
  { intros y H. pose proof (Up (2 ^ 52) y H) as R. rewrite Ex in R by lia. exact R. }
  destruct (Z_le_gt_dec x (2 ^ 53)) as [L|G].
  - rewrite (Ex x) by lia. destruct (Z_le_gt_dec (x + start) (2 ^ 53)) as [L1|G1].
    + rewrite (Ex (x + start)) by lia. rewrite Ex by lia. reflexivity.
    + pose proof (Far (x + start) ltac:(lia)) as R. pose proof (Near (rnd (x + start) - now) ltac:(lia)). lia.
  - pose proof (Far x ltac:(lia)) as R0. pose proof (Far (rnd x + start) ltac:(lia)) as R.
    pose proof (Near (rnd (rnd x + start) - now) ltac:(lia)). lia.
Qed.

(* `give` in window.lua: max(0, n - over - before), where over is what the windows since then have taken. *)
Theorem a_refund_beyond_windows_is_exact : forall rnd n over before, is_rounding rnd -> 0 <= n <= most -> 0 <= over ->
  0 <= before <= most -> Z.max 0 (rnd (rnd (n - rnd over) - before)) = Z.max 0 (n - over - before).
Proof.
  intros rnd n over before (Up & Ex) Hn Ho Hb. unfold most in *.
  assert (Low : forall y, y <= 0 -> rnd y <= 0).
  { intros y H. pose proof (Up y 0 H) as R. rewrite (Ex 0) in R by lia. exact R. }
  destruct (Z_le_gt_dec over (2 ^ 52)) as [L|G].
  - rewrite (Ex over) by lia. rewrite (Ex (n - over)) by lia. rewrite Ex by lia. reflexivity.
  - pose proof (Up (2 ^ 52) over ltac:(lia)) as R. rewrite Ex in R by lia. pose proof (Low (n - rnd over) ltac:(lia)) as R1.
    pose proof (Low (rnd (n - rnd over) - before) ltac:(lia)). lia.
Qed.

(* `due`, `wait` and `reset` in log.lua: min(MOST, max(0, score + period - now)), where a forced charge may count long after
   the end of exact times. *)
Theorem a_slot_is_free_exactly : forall rnd score period now, is_rounding rnd -> 0 <= score -> 0 <= period <= most ->
  0 <= now <= most ->
  Z.min most (Z.max 0 (rnd (rnd (score + period) - now))) = Z.min most (Z.max 0 (score + period - now)).
Proof.
  intros rnd score period now R Hs Hp Hn.
  destruct R as (Up & Ex). unfold most in *.
  destruct (Z_le_gt_dec (score + period) (2 ^ 53)) as [L|G].
  - rewrite (Ex (score + period)) by lia. rewrite Ex by lia. reflexivity.
  - pose proof (Up (2 ^ 53) (score + period) ltac:(lia)) as R. rewrite Ex in R by lia.
    pose proof (Up (2 ^ 52) (rnd (score + period) - now) ltac:(lia)) as R1. rewrite Ex in R1 by lia. lia.
Qed.
Print Assumptions div_up_is_exact.
