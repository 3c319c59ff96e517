(* Changes of the quota under token buckets, fixed windows and sub-intervals, over the functions as the compiler has them:
   a step that has begun continues, with the length of the new one; a change never raises the available number, or in
   proportion the available fraction; and if the spent number is kept, any calls between any changes admit, at ticks from
   t1 to t2, at most the largest capacity and the largest batch for each shortest period that begins in between. *)
Require Import ZArith Lia Bool.
Require Import Machine Code Arithmetic Params Gcra Batches Changes.
Open Scope Z_scope.

(* What `Promise` makes of a quota for these algorithms, and a start that is not long before the epoch. *)
Definition are_steps (c p capacity start : Z) :=
  1 <= c <= p /\ 1 < p <= 2 ^ 58 /\ 1 <= capacity <= 2 ^ 58 /\ - 2 ^ 59 <= start <= last_tick.

(* The tick at which the step of a tick begins. *)
Definition begin_of (p start t : Z) := start + Z.max 0 (Z.min t last_tick - start) / p * p.

(* The units fit a word. *)
Lemma batches_fit : forall c p capacity start t, are_steps c p capacity start -> 0 <= t ->
  0 <= batches c p start t < 2 ^ 60 /\ 0 <= Z.max 0 (Z.min t last_tick - start) / p * p <= 2 ^ 60.
Proof.
  intros c p capacity start t (Hc & Hp & _ & Hs) Ht. unfold batches.
  assert (X : last_tick = 288230376151711743) by reflexivity.
  set (x := Z.max 0 (Z.min t last_tick - start)) in *. assert (Bx : 0 <= x <= 2 ^ 58 + 2 ^ 59) by lia.
  pose proof (Z.div_mod x p ltac:(lia)) as D. pose proof (Z.mod_pos_bound x p ltac:(lia)) as M.
  assert (Q : 0 <= x / p) by (apply Z.div_pos; lia). set (q := x / p) in *.
  assert (q * c <= q * p) by (apply Z.mul_le_mono_nonneg_l; lia).
  assert (0 <= q * c) by (apply Z.mul_nonneg_nonneg; lia). lia.
Qed.

(* The number of steps that may have begun after t1 up to a tick at which one begins, if they are at least m apart. *)
Definition begun_since (t1 m beginning : Z) := Z.max 0 ((beginning - t1 + m - 1) / m).
(* Until a later tick, at least as many steps have begun. *)
Lemma begun_rises : forall t1 m x y, 0 < m -> x <= y -> begun_since t1 m x <= begun_since t1 m y.
Proof.
  intros t1 m x y Hm H. unfold begun_since.
  assert ((x - t1 + m - 1) / m <= (y - t1 + m - 1) / m) by (apply Z.div_le_mono; lia). lia.
Qed.
(* k steps more are counted, if the first of them begins after t1. *)
Lemma begun_counts : forall t1 m p x k, 0 < m <= p -> 0 <= k -> k = 0 \/ t1 < x + p ->
  begun_since t1 m x + k <= begun_since t1 m (x + k * p).
Proof.
  intros t1 m p x k Hm Hk H. destruct (Z.eq_dec k 0) as [->|K]; [rewrite Z.mul_0_l, !Z.add_0_r; lia|].
  destruct H as [H|H]; [lia|]. unfold begun_since.
  assert (P : (k - 1) * m <= (k - 1) * p) by (apply Z.mul_le_mono_nonneg_l; lia).
  assert (P' : k * m <= k * p) by (apply Z.mul_le_mono_nonneg_l; lia).
  destruct (Z_le_gt_dec x t1) as [L|G].
  - assert ((x - t1 + m - 1) / m <= 0) by (apply Z.lt_succ_r; apply Z.div_lt_upper_bound; lia).
    assert (k <= (x + k * p - t1 + m - 1) / m) by (apply Z.div_le_lower_bound; lia). lia.
  - assert (E : (x - t1 + m - 1) / m + k = (x - t1 + m - 1 + k * m) / m) by (symmetry; apply Z.div_add; lia).
    assert ((x - t1 + m - 1 + k * m) / m <= (x + k * p - t1 + m - 1) / m) by (apply Z.div_le_mono; lia).
    assert (0 <= (x - t1 + m - 1) / m) by (apply Z.div_pos; lia). lia.
Qed.

(* The units between two ticks, and the steps that begin in between. *)
Lemma between : forall c p start t1 m s t, 1 <= c -> 0 < m <= p -> t1 <= s <= t -> start <= s ->
  exists k, 0 <= k /\ batches c p start t = batches c p start s + k * c /\
    begun_since t1 m (begin_of p start s) + k <= begun_since t1 m (begin_of p start t).
Proof.
  intros c p start t1 m s t Hc Hm Ht Hs. unfold batches, begin_of.
  set (x := Z.max 0 (Z.min s last_tick - start)) in *. set (y := Z.max 0 (Z.min t last_tick - start)) in *.
  pose proof (Z.div_mod x p ltac:(lia)) as D. pose proof (Z.mod_pos_bound x p ltac:(lia)) as M.
  assert (Le : x / p <= y / p) by (apply Z.div_le_mono; lia).
  exists (y / p - x / p). split; [lia|]. split; [ring|].
  replace (start + y / p * p) with (start + x / p * p + (y / p - x / p) * p) by ring.
  apply begun_counts; [lia|lia|].
  destruct (Z_le_gt_dec s last_tick) as [L|G]; [right; lia|left].
  assert (E : x = y) by lia. rewrite E. lia.
Qed.
(* A later tick has at least as many batches. *)
Lemma batches_rise : forall c p start s t, 1 <= c -> 1 <= p -> s <= t -> batches c p start s <= batches c p start t.
Proof.
  intros c p start s t Hc Hp H. unfold batches. apply Z.mul_le_mono_nonneg_r; [lia|]. apply Z.div_le_mono; lia.
Qed.

(* The calls and the changes, in the order of their exchanges or of the lock, as `event` in Changes.v: the steps, the end of
   the backlog, the tick of the last change, what was admitted at ticks from t1 to t2 less its refunds, and the other charges
   made since less theirs. A token is a unit. *)
Record steps := { batch : Z; length : Z; capacity_of : Z; start_of : Z; ends : Z; changed : Z; admits : Z; besides : Z }.
Definition passed (w : steps) (t : Z) := batches (batch w) (length w) (start_of w) t.
Definition with_ends (w : steps) (e a o : Z) :=
  {| batch := batch w; length := length w; capacity_of := capacity_of w; start_of := start_of w; ends := e;
     changed := changed w; admits := a; besides := o |}.
Inductive steps_event (t1 t2 : Z) : steps -> steps -> Prop :=
  (* An admission of n tokens at a tick t: `take_is_exact`, or a grant by `a_grant_of_batches_is_exact`. *)
  | AdmitInStep : forall w t n, changed w <= t -> t1 <= t <= t2 -> 0 <= n ->
      Z.max (ends w) (passed w t) + n <= passed w t + capacity_of w ->
      steps_event t1 t2 w (with_ends w (Z.max (ends w) (passed w t) + n) (admits w + n) (besides w))
  (* Any other charge: at an earlier or a later tick, or forced beyond the capacity. *)
  | ChargeInStep : forall w from n, 0 <= n -> 0 < admits w + besides w ->
      steps_event t1 t2 w (with_ends w (Z.max (ends w) from + n) (admits w) (besides w + n))
  (* What was called before the first admission. *)
  | BeforeSteps : forall w e, admits w = 0 -> besides w = 0 -> steps_event t1 t2 w (with_ends w e 0 0)
  (* Refunds of an admitted charge, of another one made since, and of one made before: see `step`. *)
  | RefundOfAdmitted : forall w r, 0 <= r <= admits w ->
      steps_event t1 t2 w (with_ends w (ends w - r) (admits w - r) (besides w))
  | RefundOfBeside : forall w r, 0 <= r <= besides w ->
      steps_event t1 t2 w (with_ends w (ends w - r) (admits w) (besides w - r))
  | RefundOfEarlier : forall w r now, 0 <= r -> t1 <= now -> changed w <= now ->
      passed w now + admits w + besides w + r <= ends w ->
      steps_event t1 t2 w (with_ends w (ends w - r) (admits w) (besides w))
  (* A change that keeps the spent number, at a tick that is not before those of the calls: `steps_carry_over`. *)
  | ChangeSteps : forall w c p capacity now end_, are_steps c p capacity (begin_of (length w) (start_of w) now) ->
      changed w <= now -> (0 < admits w + besides w -> t1 <= now) ->
      batches c p (begin_of (length w) (start_of w) now) now + (ends w - passed w now) <= end_ ->
      steps_event t1 t2 w {| batch := c; length := p; capacity_of := capacity;
        start_of := begin_of (length w) (start_of w) now; ends := end_; changed := now; admits := admits w;
        besides := besides w |}.

(* Steps that are not above a batch, a period and a capacity; and no step is counted from a later tick. *)
Definition steps_within (most m capacity : Z) (w : steps) :=
  1 <= batch w <= most /\ m <= length w /\ capacity_of w <= capacity /\ start_of w <= changed w.

(* What holds after each event. *)
Definition steps_kept (t1 t2 most m capacity : Z) (w : steps) :=
  0 <= admits w /\ 0 <= besides w /\ admits w <= capacity + most * begun_since t1 m t2 /\
  (admits w + besides w = 0 \/ forall t, t1 <= t -> changed w <= t ->
    admits w + besides w - most * begun_since t1 m (begin_of (length w) (start_of w) t) <= ends w - passed w t).

(* What is owed at a tick covers a number at every tick, but for the batches since. *)
Lemma owed_at_a_tick : forall w t1 m most s n, steps_within most m n w -> 0 < m -> t1 <= s -> changed w <= s ->
  forall x e, passed w s + x <= e -> forall t, t1 <= t -> changed w <= t ->
  x - most * begun_since t1 m (begin_of (length w) (start_of w) t) <= e - passed w t.
Proof.
  intros w t1 m most s n (Hb & Hm & _ & Hs) Hm0 H1 H2 x e Le t Ht1 Ht2. unfold passed in *.
  assert (B0 : 0 <= begun_since t1 m (begin_of (length w) (start_of w) t)) by (unfold begun_since; lia).
  assert (P0 : 0 <= most * begun_since t1 m (begin_of (length w) (start_of w) t)) by (apply Z.mul_nonneg_nonneg; lia).
  destruct (Z_le_gt_dec t s) as [L|G].
  - pose proof (batches_rise (batch w) (length w) (start_of w) t s ltac:(lia) ltac:(lia) L). lia.
  - destruct (between (batch w) (length w) (start_of w) t1 m s t ltac:(lia) ltac:(lia) ltac:(lia) ltac:(lia)) as (k & K0 & E & C).
    assert (S0 : 0 <= begun_since t1 m (begin_of (length w) (start_of w) s)) by (unfold begun_since; lia).
    assert (M1 : k * batch w <= k * most) by (apply Z.mul_le_mono_nonneg_l; lia).
    assert (M2 : most * k <= most * begun_since t1 m (begin_of (length w) (start_of w) t)) by (apply Z.mul_le_mono_nonneg_l; lia).
    lia.
Qed.

(* Each event keeps what holds between calls. *)
Lemma steps_event_keeps : forall t1 t2 most m capacity w x, 0 <= capacity -> 0 < m -> 0 <= t1 <= t2 ->
  steps_kept t1 t2 most m capacity w -> steps_within most m capacity w -> steps_within most m capacity x ->
  steps_event t1 t2 w x -> steps_kept t1 t2 most m capacity x.
Proof.
  intros t1 t2 most m capacity w x Hcap Hm H12 (HA & HB & Bound & Level) Ww Wx E.
  pose proof Ww as (Hb & Hl & Hc & Hs).
  destruct E as [w t n Hch Ht Hn Fits|w from n Hn Began|w e Z1 Z2|w r Hr|w r Hr|w r now Hr Hnow Hch Le|
    w c p cap now end_ St Hch Began Le]; unfold steps_kept in *;
    cbn [with_ends batch length capacity_of start_of ends changed admits besides] in *;
    try (replace (passed (with_ends w _ _ _)) with (passed w) by reflexivity).
  - set (e := Z.max (ends w) (passed w t) + n) in *.
    assert (Lv : forall t', t1 <= t' -> changed w <= t' ->
      admits w + n + besides w - most * begun_since t1 m (begin_of (length w) (start_of w) t') <= e - passed w t').
    { intros t' H1 H2. destruct Level as [Z0|L].
      - pose proof (owed_at_a_tick w t1 m most t capacity Ww Hm ltac:(lia) Hch n e ltac:(unfold e; lia) t' H1 H2). lia.
      - specialize (L t' H1 H2). unfold e. lia. }
    split; [lia|]. split; [lia|]. split; [|right; exact Lv].
    specialize (Lv t ltac:(lia) Hch).
    assert (R : begun_since t1 m (begin_of (length w) (start_of w) t) <= begun_since t1 m t2).
    { apply begun_rises; [lia|]. unfold begin_of. set (y := Z.max 0 (Z.min t last_tick - start_of w)).
      pose proof (Z.mul_div_le y (length w) ltac:(lia)). lia. }
    assert (M : most * begun_since t1 m (begin_of (length w) (start_of w) t) <= most * begun_since t1 m t2)
      by (apply Z.mul_le_mono_nonneg_l; lia). unfold e in *. lia.
  - split; [lia|]. split; [lia|]. split; [lia|]. right. intros t' H1 H2. destruct Level as [Z0|L]; [lia|].
    specialize (L t' H1 H2). lia.
  - split; [lia|]. split; [lia|]. split; [lia|left; lia].
  - split; [lia|]. split; [lia|]. split; [lia|]. destruct Level as [Z0|L]; [left; lia|right]. intros t' H1 H2.
    specialize (L t' H1 H2). lia.
  - split; [lia|]. split; [lia|]. split; [lia|]. destruct Level as [Z0|L]; [left; lia|right]. intros t' H1 H2.
    specialize (L t' H1 H2). lia.
  - split; [lia|]. split; [lia|]. split; [lia|]. right. intros t' H1 H2.
    exact (owed_at_a_tick w t1 m most now capacity Ww Hm Hnow Hch (admits w + besides w) (ends w - r) ltac:(lia) t' H1 H2).
  - split; [lia|]. split; [lia|]. split; [lia|]. destruct (Z_le_gt_dec (admits w + besides w) 0) as [None_|Some_]; [left; lia|].
    right. intros t' H1 H2. specialize (Began ltac:(lia)). destruct Level as [Z0|L]; [lia|]. specialize (L now Began Hch).
    set (begun := begin_of (length w) (start_of w) now) in *. unfold passed in *.
    cbn [batch length capacity_of start_of ends changed admits besides] in *.
    destruct Wx as (Hb' & Hl' & _ & Hs'). cbn [batch length capacity_of start_of ends changed admits besides] in *.
    destruct (between c p begun t1 m now t' ltac:(lia) ltac:(lia) ltac:(lia) Hs') as (k & K0 & E & C).
    assert (R : begun_since t1 m begun <= begun_since t1 m (begin_of p begun now)).
    { apply begun_rises; [lia|]. unfold begin_of. assert (0 <= Z.max 0 (Z.min now last_tick - begun) / p) by (apply Z.div_pos; lia).
      assert (0 <= Z.max 0 (Z.min now last_tick - begun) / p * p) by (apply Z.mul_nonneg_nonneg; lia). lia. }
    rewrite E. assert (M : k * c <= most * k) by (rewrite (Z.mul_comm most); apply Z.mul_le_mono_nonneg_l; lia).
    assert (M2 : most * (begun_since t1 m begun + k) <= most * begun_since t1 m (begin_of p begun t'))
      by (apply Z.mul_le_mono_nonneg_l; lia). lia.
Qed.

(* Any calls between any changes that keep the spent number: at ticks from t1 to t2, at most the largest capacity, and the
   largest batch for each of the shortest periods in the interval, rounded up. *)
Inductive all_steps (t1 t2 most m capacity : Z) : steps -> steps -> Prop :=
  | NoStep : forall w, steps_within most m capacity w -> all_steps t1 t2 most m capacity w w
  | OneMore : forall w x y, all_steps t1 t2 most m capacity w x -> steps_event t1 t2 x y -> steps_within most m capacity y ->
      all_steps t1 t2 most m capacity w y.
(* Any calls between any changes admit, at ticks from t1 to t2, at most the largest capacity, and the largest
   batch for each shortest period that begins between them. *)
Theorem steps_bound : forall t1 t2 most m capacity w x, 0 <= capacity -> 0 < m -> 0 <= t1 <= t2 -> admits w = 0 ->
  besides w = 0 -> all_steps t1 t2 most m capacity w x -> admits x <= capacity + (t2 - t1 + m - 1) / m * most.
Proof.
  intros t1 t2 most m capacity w x Hcap Hm H12 Z1 Z2 H.
  assert (P : 0 <= (t2 - t1 + m - 1) / m) by (apply Z.div_pos; lia).
  assert (KW : steps_kept t1 t2 most m capacity x /\ steps_within most m capacity x).
  { induction H as [w W|w y z H IH E W].
    - split; [|exact W]. destruct W as (Hb & _). unfold steps_kept.
      assert (0 <= most * begun_since t1 m t2) by (apply Z.mul_nonneg_nonneg; unfold begun_since; lia).
      split; [lia|]. split; [lia|]. split; [lia|left; lia].
    - destruct (IH Z1 Z2) as (Kp & Wy). split; [|exact W].
      exact (steps_event_keeps t1 t2 most m capacity y z Hcap Hm H12 Kp Wy W E). }
  destruct KW as ((_ & _ & B & _) & _). unfold begun_since in B. rewrite Z.max_r in B by lia. lia.
Qed.

(* Such parameters, counted from another tick. *)
Lemma starting_is : forall P c p capacity start begun, are_batches P c p capacity start -> 1 <= c <= p -> 1 < p <= 2 ^ 58 ->
  - 2 ^ 62 <= begun <= last_tick -> exists P', starting P begun = Some P' /\ are_batches P' c p capacity begun.
Proof.
  intros P c p capacity start begun A Hc Hp Hb.
  destruct (they_are_stepped P c p capacity start A Hc Hp) as (_ & IS & _).
  destruct A as (A1 & A2 & A3 & _ & A5 & A6 & A7). assert (X : last_tick = 288230376151711743) by reflexivity.
  unfold starting. cbv zeta. rewrite IS. cbn [bind negb]. change LAST_TICK with (Some last_tick). cbn [bind].
  rewrite wrap_i64 by lia. replace (last_tick <? begun) with false by (symmetry; apply Z.ltb_ge; lia). cbn [negb].
  change EARLIEST_START with (Some (- 2 ^ 62)). cbn [bind].
  replace (begun <? - 2 ^ 62) with false by (symmetry; apply Z.ltb_ge; lia). cbn [negb].
  eexists. split; [reflexivity|]. unfold are_batches. fields. do 3 (split; [assumption|]). split; [reflexivity|].
  split; [assumption|]. split; assumption.
Qed.

(* `start_after_change` never panics: the step that has begun continues, and the new steps are counted from its beginning. *)
Theorem a_step_continues : forall P c p capacity start t, are_batches P c p capacity start -> are_steps c p capacity start ->
  0 <= t -> start_after_change P false t = Some (begin_of p start t).
Proof.
  intros P c p capacity start t A S Ht. pose proof S as (Hc & Hp & _ & Hs).
  destruct (they_are_stepped P c p capacity start A Hc Hp) as (_ & IS & _).
  destruct (batches_fit c p capacity start t S Ht) as (Bu & Bt). assert (X : last_tick = 288230376151711743) by reflexivity.
  unfold start_after_change, step_begun, checked_div. cbv zeta. cbn [negb]. rewrite IS. cbn [bind negb].
  rewrite (batches_are_exact P c p capacity start t A Hc Hp ltac:(lia) Ht). cbn [bind].
  destruct A as (_ & _ & Stride & Start & Step & _). rewrite Stride, Start, Step.
  replace (c =? 0) with false by (symmetry; apply Z.eqb_neq; lia). cbn [bind is_some Z.eqb Pos.eqb content].
  unfold batches, begin_of in *. rewrite Z.div_mul by lia. set (y := Z.max 0 (Z.min t last_tick - start) / p * p) in *.
  rewrite checked_u64 by lia. cbn [fst snd negb]. rewrite wrap_i64 by lia. rewrite checked_i64 by lia. reflexivity.
Qed.

(* `units_after` never panics: a batch is whole. *)
Lemma batches_after : forall P c p capacity start t, are_batches P c p capacity start -> are_steps c p capacity start ->
  0 <= t -> units_after P t = Some (batches c p start t).
Proof.
  intros P c p capacity start t A S Ht. pose proof S as (Hc & Hp & _ & Hs).
  destruct (they_are_stepped P c p capacity start A Hc Hp) as (_ & IS & _).
  destruct (batches_fit c p capacity start t S Ht) as (Bu & _).
  pose proof (batches_are_exact P c p capacity start t A Hc Hp ltac:(lia) Ht) as UE.
  unfold units_after, element. cbv zeta. change (0 <? 2) with true. change (1 <? 2) with true. change NONE with (Some (1, 0)).
  cbn [bind Z.eqb Pos.eqb fst snd]. rewrite UE, IS. cbn [bind negb]. rewrite (checked_u64 (batches c p start t + 0)) by lia.
  cbn [fst snd negb]. rewrite Z.add_0_r. destruct (fst (params_surplus P) =? 1); reflexivity.
Qed.

(* What is owed after a change, of what was owed before. *)
Definition owed_after (how capacity capacity' back : Z) :=
  if how =? proportional then (back * capacity' + capacity - 1) / capacity else back.

(* `carry` never panics. While time has not ended, what is owed is carried over exactly; and the idle time, if nothing is. *)
Theorem carry_of_steps : forall how P c p capacity start P' c' p' capacity' start' tat t,
  are_batches P c p capacity start -> are_steps c p capacity start -> are_batches P' c' p' capacity' start' ->
  are_steps c' p' capacity' start' -> how = proportional \/ how = keep_spent -> 0 <= tat < 2 ^ 60 -> 0 <= t ->
  batches c' p' start' t + owed_after how capacity capacity' (Z.max 0 (tat - batches c p start t)) <= 2 ^ 60 - 1 ->
  tat_carry tat how P P' t = Some (Z.max 0 (batches c' p' start' t +
    owed_after how capacity capacity' (Z.max 0 (tat - batches c p start t)) - Z.max 0 (batches c p start t - tat))).
Proof.
  intros how P c p capacity start P' c' p' capacity' start' tat t A S A' S' How Htat Ht Room.
  pose proof S as (Hc & Hp & Hcap & Hs). pose proof S' as (Hc' & Hp' & Hcap' & Hs').
  destruct (batches_fit c p capacity start t S Ht) as (Bu & _).
  destruct (batches_fit c' p' capacity' start' t S' Ht) as (Bu' & _).
  pose proof (batches_are_exact P c p capacity start t A Hc Hp ltac:(lia) Ht) as UE.
  pose proof (batches_after P' c' p' capacity' start' t A' S' Ht) as UA.
  assert (EI : params_emission_interval P = 1) by apply A. assert (EI' : params_emission_interval P' = 1) by apply A'.
  assert (BT : params_burst_tolerance P = capacity) by apply A.
  assert (BT' : params_burst_tolerance P' = capacity') by apply A'.
  set (u := batches c p start t) in *. set (u' := batches c' p' start' t) in *.
  set (back := Z.max 0 (tat - u)) in *. set (idle := Z.max 0 (u - tat)) in *.
  assert (Bk : 0 <= back < 2 ^ 60) by (unfold back; lia). assert (Id : 0 <= idle < 2 ^ 60) by (unfold idle; lia).
  pose proof (product back capacity' (2 ^ 60) (2 ^ 59) ltac:(lia) ltac:(lia)) as Pb.
  assert (Ow : 0 <= owed_after how capacity capacity' back).
  { unfold owed_after. destruct (how =? proportional); [apply Z.div_pos; lia|lia]. }
  assert (NU : is_unlimited P = Some false) by (unfold is_unlimited; cbv zeta; rewrite EI; reflexivity).
  assert (NU' : is_unlimited P' = Some false) by (unfold is_unlimited; cbv zeta; rewrite EI'; reflexivity).
  assert (SE : scaled how back (params_burst_tolerance P, params_burst_tolerance P')
      (params_emission_interval P, params_emission_interval P') = Some (owed_after how capacity capacity' back)).
  { unfold scaled. cbv zeta. unfold element. cbn [Z.eqb fst snd]. rewrite EI, EI', BT, BT'. unfold owed_after, div_ceil in *.
    destruct How as [How|How]; subst how; cbn [proportional keep_spent Z.eqb Pos.eqb] in *.
    - rewrite !(wrap_u128 back), !(wrap_u128 capacity), !(wrap_u128 capacity') by lia. rewrite checked_u128 by lia.
      cbn [fst snd negb]. replace (capacity =? 0) with false by (symmetry; apply Z.eqb_neq; lia). cbn [bind].
      rewrite saturated_is by lia. cbn [bind]. f_equal. lia.
    - rewrite !(wrap_u128 back), !(wrap_u128 1) by lia. rewrite checked_u128 by lia. cbn [fst snd negb Z.eqb bind].
      replace ((back * 1 + 1 - 1) / 1) with back by (rewrite Z.div_1_r; lia). rewrite saturated_is by lia. cbn [bind].
      f_equal. lia. }
  unfold tat_carry, carried, tat_backlog_at, saturating_sub, saturating_add, clamp. cbv zeta. rewrite NU, NU'.
  cbn [bind negb]. rewrite UE. cbn [bind least greatest u64].
  replace (Z.max 0 (Z.min (tat - u) 18446744073709551615)) with back by lia. rewrite SE. cbn [bind].
  replace (Z.max 0 (Z.min (u - tat) 18446744073709551615)) with idle by lia.
  rewrite EI, EI', !(wrap_u128 idle), !(wrap_u128 1) by lia. rewrite checked_u128 by lia. cbn [fst snd negb Z.eqb].
  rewrite Z.mul_1_r, Z.div_1_r, saturated_is by lia. cbn [bind]. rewrite UA. cbn [bind]. unfold tat_from_units.
  change MAX_TAT with (Some (2 ^ 60 - 1)). cbn [bind]. cbv zeta.
  set (o := owed_after how capacity capacity' back) in *.
  replace (Z.max 0 (Z.min (u' + o) 18446744073709551615)) with (u' + o) by lia.
  replace (Z.max 0 (Z.min (u' + o - Z.min idle (2 ^ 64 - 1)) 18446744073709551615)) with (Z.max 0 (u' + o - idle)) by lia.
  replace (2 ^ 60 - 1 <? Z.max 0 (u' + o - idle)) with false by (symmetry; apply Z.ltb_ge; lia). reflexivity.
Qed.

(* A change that keeps the spent number, as `ChangeSteps` has it. *)
Theorem steps_carry_over : forall P c p capacity start P' c' p' capacity' start' tat t end_,
  are_batches P c p capacity start -> are_steps c p capacity start -> are_batches P' c' p' capacity' start' ->
  are_steps c' p' capacity' start' -> 0 <= tat < 2 ^ 60 -> 0 <= t ->
  batches c' p' start' t + Z.max 0 (tat - batches c p start t) <= 2 ^ 60 - 1 ->
  tat_carry tat keep_spent P P' t = Some end_ -> batches c' p' start' t + (tat - batches c p start t) <= end_.
Proof.
  intros P c p capacity start P' c' p' capacity' start' tat t end_ A S A' S' Htat Ht Room E.
  pose proof (carry_of_steps keep_spent P c p capacity start P' c' p' capacity' start' tat t A S A' S' (or_intror eq_refl)
    Htat Ht) as C.
  unfold owed_after in C. change (keep_spent =? proportional) with false in C. cbv iota in C. rewrite C in E by exact Room.
  inversion E. lia.
Qed.

(* In proportion: what is owed, as a fraction of the capacity, never falls by a change. Both sides are multiplied by both
   capacities. *)
Theorem proportional_steps_raise_nothing : forall P c p capacity start P' c' p' capacity' start' tat t end_,
  are_batches P c p capacity start -> are_steps c p capacity start -> are_batches P' c' p' capacity' start' ->
  are_steps c' p' capacity' start' -> 0 <= tat < 2 ^ 60 -> 0 <= t ->
  batches c' p' start' t + owed_after proportional capacity capacity' (Z.max 0 (tat - batches c p start t)) <= 2 ^ 60 - 1 ->
  tat_carry tat proportional P P' t = Some end_ ->
  Z.max 0 (tat - batches c p start t) * capacity' <= Z.max 0 (end_ - batches c' p' start' t) * capacity.
Proof.
  intros P c p capacity start P' c' p' capacity' start' tat t end_ A S A' S' Htat Ht Room E.
  rewrite (carry_of_steps proportional P c p capacity start P' c' p' capacity' start' tat t A S A' S' (or_introl eq_refl)
    Htat Ht Room) in E.
  assert (E' : Z.max 0 (batches c' p' start' t + owed_after proportional capacity capacity' (Z.max 0 (tat - batches c p start t))
    - Z.max 0 (batches c p start t - tat)) = end_) by congruence. clear E.
  pose proof S as (_ & _ & Hcap & _). destruct (batches_fit c' p' capacity' start' t S' Ht) as (Bu' & _).
  set (u := batches c p start t) in *. set (u' := batches c' p' start' t) in *.
  destruct (Z_le_gt_dec tat u) as [Le|Gt].
  - rewrite Z.max_l by lia. rewrite Z.mul_0_l. apply Z.mul_nonneg_nonneg; lia.
  - rewrite (Z.max_r 0 (tat - u)) in * by lia. set (back := tat - u) in *. unfold owed_after in *.
    change (proportional =? proportional) with true in *. cbv iota in *.
    pose proof (ceil_spec (back * capacity') capacity ltac:(lia)) as C.
    set (o := (back * capacity' + capacity - 1) / capacity) in *.
    apply Z.le_trans with (o * capacity); [lia|]. apply Z.mul_le_mono_nonneg_r; lia.
Qed.
Print Assumptions steps_bound.
Print Assumptions steps_carry_over.
Print Assumptions proportional_steps_raise_nothing.
