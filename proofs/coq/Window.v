(* The sliding window: fewer than 2N in any period, by counting. The window is a model, written by hand: windows begin at the
   multiples of the period, and a charge is admitted if those of the window before, in proportion to the part of that window
   within the last period, and those of this one leave room. Charges of one window come in any order of their ticks.
   tests/rate/reference compares the code with another naive window on random calls. *)
Require Import ZArith Lia Bool List.
Import ListNotations.
Open Scope Z_scope.

(* Charges are ticks and costs, the newest first. What was charged in the window of a number. *)
Definition in_window (period w : Z) (l : list (Z * Z)) : Z :=
  fold_right (fun c sum => (if fst c / period =? w then snd c else 0) + sum) 0 l.
(* What was charged at ticks from s on, for a period. *)
Definition charged_in (period s : Z) (l : list (Z * Z)) : Z :=
  fold_right (fun c sum => (if (s <=? fst c) && (fst c <? s + period) then snd c else 0) + sum) 0 l.

(* The rule, in whole numbers. No charge is of a window before the present one. *)
Inductive is_window (most period : Z) : list (Z * Z) -> Prop :=
  | NoCharge : is_window most period []
  | OneCharge : forall l t n, is_window most period l -> 0 <= n -> (forall c, In c l -> fst c / period <= t / period) ->
      in_window period (t / period - 1) l * (period - t mod period) + (in_window period (t / period) l + n) * period
        <= most * period ->
      is_window most period ((t, n) :: l).

(* A later window than those of all charges is empty. *)
Lemma later_windows_are_empty : forall period w l, (forall c, In c l -> fst c / period < w) -> in_window period w l = 0.
Proof.
  intros period w l. induction l as [|c l IH]; intro H; [reflexivity|]. cbn.
  pose proof (H c (or_introl eq_refl)) as Hc. replace (fst c / period =? w) with false by (symmetry; apply Z.eqb_neq; lia).
  unfold in_window in IH. rewrite IH; [reflexivity|]. intros d I. apply H. right. exact I.
Qed.
(* A window has admitted 0 or more. *)
Lemma no_window_is_negative : forall most period w l, is_window most period l -> 0 <= in_window period w l.
Proof.
  intros most period w l H. induction H as [|l t n H IH Hn _ _]; [reflexivity|]. cbn [in_window fold_right fst snd].
  fold (in_window period w l). destruct (t / period =? w); lia.
Qed.

(* At most N in a window, and fewer if there were any in the window before. *)
Lemma each_window : forall most period l w, 0 <= most -> 1 <= period -> is_window most period l ->
  in_window period w l <= most /\
  (0 < in_window period (w - 1) l -> 0 < in_window period w l -> in_window period w l <= most - 1).
Proof.
  intros most period l w Hm Hp H. revert w. induction H as [|l t n H IH Hn Le Fits]; intro w; [cbn; lia|].
  assert (Cons : forall v, in_window period v ((t, n) :: l) = (if t / period =? v then n else 0) + in_window period v l)
    by (intro v; reflexivity).
  rewrite !Cons. pose proof (Z.mod_pos_bound t period ltac:(lia)) as M.
  pose proof (no_window_is_negative most period (t / period - 1) l H) as N.
  destruct (Z.eqb_spec (t / period) w) as [E1|E1]; destruct (Z.eqb_spec (t / period) (w - 1)) as [E2|E2]; [lia| | |].
  - subst w. split.
    + assert (0 <= in_window period (t / period - 1) l * (period - t mod period)) by (apply Z.mul_nonneg_nonneg; lia).
      apply Z.mul_le_mono_pos_r with period; lia.
    + intros P _.
      assert (1 * 1 <= in_window period (t / period - 1) l * (period - t mod period)) by (apply Z.mul_le_mono_nonneg; lia).
      assert (n + in_window period (t / period) l < most); [|lia]. apply Z.mul_lt_mono_pos_r with period; lia.
  - destruct (IH w) as (I1 & _). rewrite (later_windows_are_empty period w l) by (intros c I; specialize (Le c I); lia).
    split; [lia|]. lia.
  - destruct (IH w) as (I1 & I2). split; [lia|]. intros P1 P2. specialize (I2 ltac:(lia) ltac:(lia)). lia.
Qed.

(* Any period lies in two windows. *)
Lemma two_windows : forall most period s l, 1 <= period -> is_window most period l ->
  charged_in period s l <= in_window period (s / period) l + in_window period (s / period + 1) l.
Proof.
  intros most period s l Hp H. induction H as [|l t n H IH Hn _ _]; [cbn; lia|].
  cbn [charged_in in_window fold_right fst snd]. fold (charged_in period s l).
  fold (in_window period (s / period) l). fold (in_window period (s / period + 1) l).
  destruct ((s <=? t) && (t <? s + period)) eqn:E.
  - apply andb_true_iff in E. destruct E as (E1 & E2). apply Z.leb_le in E1. apply Z.ltb_lt in E2.
    assert (L : s / period <= t / period) by (apply Z.div_le_mono; lia).
    assert (U : t / period <= s / period + 1).
    { replace (s / period + 1) with ((s + 1 * period) / period) by (apply Z.div_add; lia). apply Z.div_le_mono; lia. }
    destruct (t / period =? s / period) eqn:F1; destruct (t / period =? s / period + 1) eqn:F2; try lia.
  - destruct (t / period =? s / period); destruct (t / period =? s / period + 1); lia.
Qed.

(* Fewer than 2N in any period. *)
Theorem fewer_than_twice_in_any_period : forall most period l s, 1 <= most -> 1 <= period -> is_window most period l ->
  charged_in period s l <= 2 * most - 1.
Proof.
  intros most period l s Hm Hp H. pose proof (two_windows most period s l Hp H) as T.
  destruct (each_window most period l (s / period) ltac:(lia) Hp H) as (A & _).
  destruct (each_window most period l (s / period + 1) ltac:(lia) Hp H) as (B & C).
  replace (s / period + 1 - 1) with (s / period) in C by ring.
  pose proof (no_window_is_negative most period (s / period) l H).
  destruct (Z_lt_le_dec 0 (in_window period (s / period) l)); destruct (Z_lt_le_dec 0 (in_window period (s / period + 1) l));
    lia.
Qed.
Print Assumptions fewer_than_twice_in_any_period.
