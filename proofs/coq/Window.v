(* The sliding window: fewer than 2N in any period, by counting. The window is a model, written by hand: windows begin at the
   multiples of the period, and a charge is admitted if those of the window before, in proportion to the part of that window
   within the last period, and those of this one leave room. Charges of one window come in any order of their ticks.
   tests/rate/reference compares the code with another naive window on random calls, and Random.v
   the changes of the quota with those of the code. *)
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

(* Changes of the quota. The estimate is what the rule counts: `previous` fades evenly over this window. All is multiplied by
   the period, so nothing is rounded. *)
Record window := { most_of : Z; period_of : Z; start_of : Z; previous : Z; counted : Z }.
Definition estimate (w : window) (t : Z) := previous w * (period_of w - (t - start_of w)) + counted w * period_of w.
Definition is_in (w : window) (t : Z) := start_of w <= t < start_of w + period_of w.
(* A window that is not above a count and a rate of a / b. *)
Definition within (n a b : Z) (w : window) :=
  1 <= most_of w <= n /\ 1 <= period_of w /\ most_of w * b <= a * period_of w /\ 0 <= previous w <= most_of w /\ 0 <= counted w.

(* A quotient that is rounded up, and what fades in this window, times the period. *)
Definition up (x y : Z) := (x + y - 1) / y.
Definition faded (w : window) (t : Z) := previous w * (period_of w - (t - start_of w)).
(* The largest count of a window: a change keeps no larger number. *)
Definition most_counted := 2 ^ 48 - 1.
(* What a change keeps of the estimate before, rounded up. *)
Definition owed_after (proportional : bool) (w : window) (t most : Z) :=
  up ((counted w + up (faded w t) (period_of w)) * if proportional then most else 1) (if proportional then most_of w else 1).
(* `SlidingWindow::change`, at a tick: the estimate before, rounded up, is the number that is kept, or its proportion; some
   part of that fades, unless the estimate would be rounded up by more than before; and the rest is of this window. *)
Definition rounded (w : window) (t : Z) := up (faded w t) (period_of w) * period_of w - faded w t.
Definition change_of (proportional : bool) (w : window) (t most period start fading : Z) : window :=
  let used := counted w + up (faded w t) (period_of w) in
  let '(old, new) := if proportional then (most_of w, most) else (1, 1) in
  let owed := Z.min (up (used * new) old) most_counted in
  let fades := {| most_of := most; period_of := period; start_of := start; previous := fading; counted := 0 |} in
  let fading := if rounded w t * period / old * new <? rounded fades t * period_of w then 0 else fading in
  let fades := {| most_of := most; period_of := period; start_of := start; previous := fading; counted := 0 |} in
  {| most_of := most; period_of := period; start_of := start; previous := fading;
     counted := Z.max 0 (owed - up (faded fades t) period) |}.
(* The part that fades: the same if nothing but the count has changed, and otherwise in proportion to what is left of the window. *)
Definition fading_of (proportional : bool) (w : window) (t most period passed : Z) :=
  let used := counted w + up (faded w t) (period_of w) in
  let '(old, new) := if proportional then (most_of w, most) else (1, 1) in
  let owed := Z.min (up (used * new) old) most_counted in
  let fading := if used =? 0 then 0 else if negb proportional && (period =? period_of w) then previous w
    else (used - Z.min (counted w) used) * owed / used * period / (period - passed) in
  Z.min fading most.
(* A quotient that is rounded up, times the divisor. *)
Lemma up_is : forall x y, 1 <= y -> x <= up x y * y < x + y.
Proof.
  intros x y Hy. unfold up. pose proof (Z.div_mod (x + y - 1) y ltac:(lia)) as D.
  pose proof (Z.mod_pos_bound (x + y - 1) y ltac:(lia)). lia.
Qed.
(* The parts of the next theorems, for any two numbers by which a change scales. *)
Lemma estimate_after : forall used owed R R' p p' old new e e', 1 <= p -> 1 <= p' -> 1 <= old -> 1 <= new -> 0 <= R ->
  used * new <= owed * old -> (R' = 0 \/ R' * p <= R * p' / old * new) -> e = used * p - R -> owed * p' - R' <= e' ->
  e * p' * new <= e' * p * old.
Proof.
  intros used owed R R' p p' old new e e' Hp Hp' Ho Hn HR Le Rd E E'.
  assert (B : R' * p * old <= R * p' * new).
  { destruct Rd as [Z0|Rd]; [rewrite Z0; rewrite !Z.mul_0_l; repeat apply Z.mul_nonneg_nonneg; lia|].
    pose proof (Z.mul_div_le (R * p') old ltac:(lia)) as D.
    apply Z.le_trans with (R * p' / old * new * old); [apply Z.mul_le_mono_nonneg_r; lia|].
    replace (R * p' / old * new * old) with (old * (R * p' / old) * new) by ring. apply Z.mul_le_mono_nonneg_r; lia. }
  assert (P : 0 <= p * old) by (apply Z.mul_nonneg_nonneg; lia).
  assert (A : (owed * p' - R') * (p * old) <= e' * (p * old)) by (apply Z.mul_le_mono_nonneg_r; lia).
  assert (C : used * new * (p * p') <= owed * old * (p * p')) by (apply Z.mul_le_mono_nonneg_r; [apply Z.mul_nonneg_nonneg; lia|exact Le]).
  rewrite E. lia.
Qed.
(* A change that keeps the spent number lowers no estimate; one in proportion lowers no part of the count. Which part fades is
   not needed. Both sides are multiplied by the periods, and by the counts. *)
Theorem no_change_lowers_the_estimate : forall proportional w t most period start fading, 1 <= most_of w -> 1 <= period_of w ->
  1 <= most -> 1 <= period -> owed_after proportional w t most <= most_counted -> let x := change_of proportional w t most period start fading in
  if proportional then estimate w t * period * most <= estimate x t * period_of w * most_of w
  else estimate w t * period <= estimate x t * period_of w.
Proof.
  intros proportional w t most period start fading Hm Hp Hm' Hp' Fits. cbv zeta. unfold change_of, owed_after in *.
  set (used := counted w + up (faded w t) (period_of w)).
  fold used in Fits.
  assert (All : forall old new, 1 <= old -> 1 <= new -> up (used * new) old <= most_counted ->
    let fades f := {| most_of := most; period_of := period; start_of := start; previous := f; counted := 0 |} in
    let f := if rounded w t * period / old * new <? rounded (fades fading) t * period_of w then 0 else fading in
    estimate w t * period * new <= estimate {| most_of := most; period_of := period; start_of := start; previous := f;
      counted := Z.max 0 (Z.min (up (used * new) old) most_counted - up (faded (fades f) t) period) |} t * period_of w * old).
  { intros old new Ho Hn Le. cbv zeta. set (fades := fun f => _). set (f := if _ <? _ then 0 else fading).
    rewrite (Z.min_l _ most_counted Le).
    pose proof (up_is (faded w t) (period_of w) Hp) as U. pose proof (up_is (used * new) old Ho) as O.
    pose proof (up_is (faded (fades f) t) period Hp') as U'.
    apply (estimate_after used (up (used * new) old) (rounded w t) (rounded (fades f) t)); try assumption.
    - unfold rounded. lia.
    - lia.
    - unfold f. destruct (Z.ltb_spec (rounded w t * period / old * new) (rounded (fades fading) t * period_of w)) as [L|G].
      + left. unfold rounded, faded, fades. cbn [previous period_of start_of]. rewrite Z.mul_0_l. unfold up.
        rewrite Z.div_small by lia. ring.
      + right. exact G.
    - unfold estimate, rounded, used, faded. ring.
    - unfold estimate, rounded, faded, fades in *. cbn [previous period_of start_of counted] in *.
      set (q := f * (period - (t - start))) in *. set (u := up q period) in *. set (v := up (used * new) old) in *.
      assert ((v - u) * period <= Z.max 0 (v - u) * period) by (apply Z.mul_le_mono_nonneg_r; lia). lia. }
  destruct proportional; cbv zeta.
  - exact (All (most_of w) most Hm Hm' Fits).
  - pose proof (All 1 1 ltac:(lia) ltac:(lia) Fits) as A. cbv zeta in A. rewrite !Z.mul_1_r in *. exact A.
Qed.

(* The charges, the windows and the changes, in the order of their exchanges or of the lock: the window, the tick of the last
   change, and what was admitted at ticks from t1 to t2. There are no refunds. *)
Record world := { window_now : window; since : Z; taken : Z }.
Inductive event (t1 t2 : Z) : world -> world -> Prop :=
  (* An admission at a tick of this window. No decision after a change has an earlier clock. *)
  | AdmitOne : forall w since taken t n, since <= t -> t1 <= t <= t2 -> is_in w t -> 0 <= n ->
      estimate w t + n * period_of w <= most_of w * period_of w ->
      event t1 t2 {| window_now := w; since := since; taken := taken |}
        {| window_now := {| most_of := most_of w; period_of := period_of w; start_of := start_of w; previous := previous w;
             counted := counted w + n |}; since := since; taken := taken + n |}
  (* Any other charge: at an earlier or a later tick, or forced. *)
  | ChargeOther : forall w since taken n, 0 <= n -> event t1 t2 {| window_now := w; since := since; taken := taken |}
        {| window_now := {| most_of := most_of w; period_of := period_of w; start_of := start_of w; previous := previous w;
             counted := counted w + n |}; since := since; taken := taken |}
  (* The next window, which takes its part of an excess. *)
  | NextWindow : forall w since taken, event t1 t2 {| window_now := w; since := since; taken := taken |}
        {| window_now := {| most_of := most_of w; period_of := period_of w; start_of := start_of w + period_of w;
             previous := Z.min (counted w) (most_of w); counted := counted w - Z.min (counted w) (most_of w) |};
           since := since; taken := taken |}
  (* A change that keeps the spent number, at a tick that is not before those of the calls. *)
  | ChangeQuota : forall w since taken now most period start fading, since <= now -> is_in w now -> (0 < taken -> t1 <= now) ->
      start <= now < start + period -> owed_after false w now most <= most_counted ->
      event t1 t2 {| window_now := w; since := since; taken := taken |}
        {| window_now := change_of false w now most period start fading; since := now; taken := taken |}.
Inductive events (n a b t1 t2 : Z) : world -> world -> Prop :=
  | NoEvent : forall w, within n a b (window_now w) -> events n a b t1 t2 w w
  | OneEvent : forall w x y, events n a b t1 t2 w x -> event t1 t2 x y -> within n a b (window_now y) -> events n a b t1 t2 w y.

(* What holds after each event: what was admitted is in the estimate, but for what fades at the largest rate. *)
Definition kept (n a b t1 t2 : Z) (x : world) := let w := window_now x in
  0 <= taken x /\ since x <= start_of w + period_of w /\ (0 < taken x -> t1 <= start_of w + period_of w) /\
  taken x * b <= n * b + a * Z.max 0 (t2 - t1) /\ forall t, t1 <= t -> since x <= t -> start_of w <= t <= start_of w + period_of w ->
    (taken x * b - a * (t - t1)) * period_of w <= estimate w t * b.
(* An estimate is not negative. *)
Lemma estimates_are_positive : forall n a b w t, within n a b w -> start_of w <= t <= start_of w + period_of w -> 0 <= estimate w t.
Proof.
  intros n a b w t (_ & Hp & _ & Hpr & Hc) Ht. unfold estimate. apply Z.add_nonneg_nonneg; apply Z.mul_nonneg_nonneg; lia.
Qed.
(* Each event keeps it. *)
Lemma event_keeps : forall n a b t1 t2 x y, 0 <= a -> 1 <= b -> 0 <= n -> t1 <= t2 -> kept n a b t1 t2 x ->
  within n a b (window_now x) -> within n a b (window_now y) -> event t1 t2 x y -> kept n a b t1 t2 y.
Proof.
  intros n a b t1 t2 x y Ha Hb Hn H12 (T0 & Sn & Began & Bound & Lv) Wx Wy E.
  destruct E as [w s k t m Hs Ht Iw Hm Fits|w s k m Hm|w s k|w s k now most period start fading Hs Iw Now St Fits];
    unfold kept in *; cbn [window_now since taken period_of start_of] in *.
  - destruct Wx as (M & P & R & Pr & C). unfold is_in in Iw.
    assert (L : forall t', t1 <= t' -> s <= t' -> start_of w <= t' <= start_of w + period_of w ->
      ((k + m) * b - a * (t' - t1)) * period_of w <= (estimate w t' + m * period_of w) * b).
    { intros t' H1 H2 H3. specialize (Lv t' H1 H2 H3). lia. }
    split; [lia|]. split; [exact Sn|]. split; [lia|]. split.
    + specialize (L t ltac:(lia) Hs ltac:(lia)).
      assert (B : ((k + m) * b - a * (t - t1)) * period_of w <= n * b * period_of w).
      { apply Z.le_trans with ((most_of w * period_of w) * b);
          [apply Z.le_trans with ((estimate w t + m * period_of w) * b); [exact L|apply Z.mul_le_mono_nonneg_r; lia]|].
        replace (most_of w * period_of w * b) with (most_of w * (period_of w * b)) by ring.
        replace (n * b * period_of w) with (n * (period_of w * b)) by ring.
        apply Z.mul_le_mono_nonneg_r; [apply Z.mul_nonneg_nonneg; lia|lia]. }
      apply Z.mul_le_mono_pos_r in B; [|lia].
      assert (a * (t - t1) <= a * Z.max 0 (t2 - t1)) by (apply Z.mul_le_mono_nonneg_l; lia). lia.
    + intros t' H1 H2 H3. specialize (L t' H1 H2 H3). unfold estimate in *.
      cbn [previous counted period_of start_of] in *. lia.
  - destruct Wx as (M & P & R & Pr & C). split; [exact T0|]. split; [exact Sn|]. split; [exact Began|]. split; [exact Bound|].
    intros t' H1 H2 H3. specialize (Lv t' H1 H2 H3). unfold estimate in *. cbn [previous counted period_of start_of] in *.
    assert (0 <= m * period_of w * b) by (repeat apply Z.mul_nonneg_nonneg; lia). lia.
  - destruct Wx as (M & P & R & Pr & C). split; [exact T0|]. split; [lia|]. split; [intro K; specialize (Began K); lia|].
    split; [exact Bound|]. intros t' H1 H2 H3. set (e := start_of w + period_of w) in *.
    destruct (Z_le_gt_dec k 0) as [K|K].
    + pose proof (estimates_are_positive n a b _ t' Wy) as Po. cbn [start_of period_of] in Po. specialize (Po H3).
      assert (k = 0) by lia. subst k. assert (0 <= a * (t' - t1) * period_of w) by (repeat apply Z.mul_nonneg_nonneg; lia).
      set (v := estimate _ t') in *. assert (0 <= v * b) by (apply Z.mul_nonneg_nonneg; lia). lia.
    + specialize (Lv e (Began ltac:(lia)) Sn ltac:(unfold e; lia)). unfold estimate in *.
      cbn [previous counted period_of start_of] in *. replace (period_of w - (e - start_of w)) with 0 in Lv by (unfold e; ring).
      set (p := Z.min (counted w) (most_of w)) in *. set (d := t' - e).
      assert (D : p * d * b <= a * period_of w * d).
      { replace (p * d * b) with (p * b * d) by ring. apply Z.mul_le_mono_nonneg_r; [unfold d; lia|].
        apply Z.le_trans with (most_of w * b); [apply Z.mul_le_mono_nonneg_r; lia|exact R]. }
      replace (t' - t1) with (e - t1 + d) by (unfold d; ring). fold d. lia.
  - unfold is_in in Iw. pose proof Wx as (M & P & R & Pr & C). pose proof Wy as (M' & P' & R' & Pr' & C').
    pose proof (no_change_lowers_the_estimate false w now most period start fading ltac:(lia) ltac:(lia)) as Le.
    set (z := change_of false w now most period start fading) in *.
    assert (Ez : most_of z = most /\ period_of z = period /\ start_of z = start) by (repeat split; reflexivity).
    destruct Ez as (Em & Ep & Es). rewrite Em, Ep in *. rewrite Es in *. specialize (Le ltac:(lia) ltac:(lia) Fits). cbv iota zeta in Le.
    split; [exact T0|]. split; [lia|]. split; [intro K; specialize (Now K); lia|]. split; [exact Bound|]. intros t' H1 H2 H3.
    destruct (Z_le_gt_dec k 0) as [K|K].
    + pose proof (estimates_are_positive n a b z t' Wy) as Po. rewrite Ep, Es in Po. specialize (Po H3).
      assert (k = 0) by lia. subst k. assert (0 <= a * (t' - t1) * period) by (repeat apply Z.mul_nonneg_nonneg; lia).
      set (v := estimate z t') in *. assert (0 <= v * b) by (apply Z.mul_nonneg_nonneg; lia). lia.
    + specialize (Lv now (Now ltac:(lia)) Hs ltac:(lia)). set (X := k * b - a * (now - t1)) in *.
      assert (A : X * period <= estimate z now * b).
      { apply Z.mul_le_mono_pos_r with (period_of w); [lia|].
        assert (X * period_of w * period <= estimate w now * b * period) by (apply Z.mul_le_mono_nonneg_r; lia).
        assert (estimate w now * period * b <= estimate z now * period_of w * b) by (apply Z.mul_le_mono_nonneg_r; lia). lia. }
      set (d := t' - now). assert (D : previous z * d * b <= a * period * d).
      { replace (previous z * d * b) with (previous z * b * d) by ring. apply Z.mul_le_mono_nonneg_r; [unfold d; lia|].
        apply Z.le_trans with (most * b); [apply Z.mul_le_mono_nonneg_r; lia|exact R']. }
      assert (Ed : estimate z t' = estimate z now - previous z * d) by (unfold estimate, d; ring).
      rewrite Ed. replace (t' - t1) with (now - t1 + d) by (unfold d; ring). unfold X in A. lia.
Qed.
(* Any charges between any changes that keep the spent number: at ticks from t1 to t2, at most the largest count and the
   largest rate times the interval. *)
Theorem estimate_bound : forall n a b t1 t2 w x, 0 <= a -> 1 <= b -> 0 <= n -> t1 <= t2 -> taken w = 0 ->
  since w <= start_of (window_now w) + period_of (window_now w) -> events n a b t1 t2 w x ->
  taken x * b <= n * b + a * (t2 - t1).
Proof.
  intros n a b t1 t2 w x Ha Hb Hn H12 Z0 S0 H.
  assert (KW : kept n a b t1 t2 x /\ within n a b (window_now x)).
  { induction H as [w W|w y z H IH E W].
    - split; [|exact W]. unfold kept. rewrite Z0. assert (0 <= n * b) by (apply Z.mul_nonneg_nonneg; lia).
      assert (0 <= a * Z.max 0 (t2 - t1)) by (apply Z.mul_nonneg_nonneg; lia).
      split; [lia|]. split; [exact S0|]. split; [lia|]. split; [lia|]. intros t H1 H2 H3.
      pose proof (estimates_are_positive n a b _ t W H3) as Po. destruct W as (_ & P & _).
      assert (0 <= a * (t - t1) * period_of (window_now w)) by (repeat apply Z.mul_nonneg_nonneg; lia).
      assert (0 <= estimate (window_now w) t * b) by (apply Z.mul_nonneg_nonneg; lia). lia.
    - destruct (IH Z0 S0) as (Kp & Wy). split; [|exact W]. exact (event_keeps n a b t1 t2 y z Ha Hb Hn H12 Kp Wy W E). }
  destruct KW as ((_ & _ & _ & B & _) & _). rewrite Z.max_r in B by lia. exact B.
Qed.
(* So `Algorithm::most_in` holds of a quota with the largest count and the shortest period: fewer than 2N for each begun period. *)
Theorem changes_of_a_window : forall n shortest t1 t2 periods w x, 1 <= n -> 1 <= shortest -> t1 <= t2 -> 1 <= periods ->
  t2 - t1 + 1 <= periods * shortest -> taken w = 0 -> since w <= start_of (window_now w) + period_of (window_now w) ->
  events n n shortest t1 t2 w x -> taken x <= periods * (2 * n - 1).
Proof.
  intros n shortest t1 t2 periods w x Hn Hs H12 Hk Le Z0 S0 H.
  pose proof (estimate_bound n n shortest t1 t2 w x ltac:(lia) Hs ltac:(lia) H12 Z0 S0 H) as B.
  assert (D : taken x < n + n * periods).
  { apply Z.mul_lt_mono_pos_r with shortest; [lia|]. assert (n * (t2 - t1) <= n * (periods * shortest - 1)) by (apply Z.mul_le_mono_nonneg_l; lia). lia. }
  assert (0 <= (n - 1) * (periods - 1)) by (apply Z.mul_nonneg_nonneg; lia). lia.
Qed.
(* A window that is not above the largest count and has at least the shortest period is within these bounds. *)
Lemma smaller_is_within : forall n shortest w, 1 <= most_of w <= n -> 1 <= shortest <= period_of w -> 0 <= previous w <= most_of w ->
  0 <= counted w -> within n n shortest w.
Proof.
  intros n shortest w Hm Hp Hpr Hc. unfold within. repeat split; try lia. apply Z.mul_le_mono_nonneg; lia.
Qed.
Print Assumptions changes_of_a_window.
Print Assumptions no_change_lowers_the_estimate.
