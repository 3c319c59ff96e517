(* `Quota::split`, over `share` as the compiler has it: it never panics, a share is a valid quota, and with the default
   algorithm all shares together admit, each in an interval t of its own clock, less than
   max(burst, nodes) + rate * (t + 1 ns), whatever is called on each of them. *)
Require Import ZArith Lia Bool List.
Require Import Machine Code Arithmetic Params Gcra.
Open Scope Z_scope.

(* A share: a valid quota of at most the rate and, in all, at most the burst, or one token for each node. *)
Definition is_share (c p b nodes c' p' b' : Z) :=
  is_valid c' p' b' /\ c' * (p * nodes) <= c * p' /\ nodes * b' <= Z.max b nodes.

(* What is left to show of a share whose count and period are known. *)
Lemma share_of : forall c p b nodes c' p', is_valid c p b -> 1 <= nodes < 2 ^ 32 -> 1 <= c' < 2 ^ 64 -> 1 <= p' < 2 ^ 64 ->
  c' * (p * nodes) <= c * p' -> p' <= 2 ^ 58 * c' ->
  let most := 2 ^ 58 * c' / p' in let b' := Z.min (b / nodes) most in
  is_share c p b nodes c' p' (if b' =? 0 then 1 else b').
Proof.
  intros c p b nodes c' p' (Hc & Hp & Hb & Hc64 & Hd & Hl & Hlong) Hn Hc' Hp' Rate One most b'.
  assert (M1 : 1 <= most) by (apply Z.div_le_lower_bound; lia).
  pose proof (Z.mul_div_le b nodes ltac:(lia)) as Bn. pose proof (Z.mul_div_le (2 ^ 58 * c') p' ltac:(lia)) as Mn.
  fold most in Mn. assert (B0 : 0 <= b / nodes) by (apply Z.div_pos; lia).
  set (s := b / nodes) in *. assert (Sb : s <= b).
  { assert (s * 1 <= s * nodes) by (apply Z.mul_le_mono_nonneg_l; lia). lia. }
  assert (Rate1 : c' * p <= c * p').
  { assert (c' * (p * 1) <= c' * (p * nodes)) by (repeat (apply Z.mul_le_mono_nonneg_l; [lia|]); lia). lia. }
  set (one := if b' =? 0 then 1 else b').
  assert (Ob : 1 <= one /\ one <= most /\ (one = 1 \/ one <= s)).
  { unfold one. destruct (b' =? 0) eqn:E; [lia|]. apply Z.eqb_neq in E. unfold b' in *. lia. }
  unfold is_share, is_valid. destruct Ob as (O1 & O2 & O3).
  split; [split; [lia|]; split; [lia|]; split; [lia|]; split; [lia|]; split; [|split]|split; [exact Rate|]].
  - (* 16 tokens in a nanosecond *) apply Z.mul_le_mono_pos_r with p; [lia|].
    assert (c * p' <= 16 * p * p') by (apply Z.mul_le_mono_nonneg_r; lia). lia.
  - intro D. destruct O3 as [O3|O3]; [lia|]. assert (b <= 2 ^ 56); [|lia]. apply Hl.
    apply Z.mul_le_mono_pos_r with p'; [lia|].
    assert (2 * p' * p <= c' * p) by (apply Z.mul_le_mono_nonneg_r; lia). lia.
  - assert (one * p' <= most * p') by (apply Z.mul_le_mono_nonneg_r; lia). lia.
  - destruct O3 as [O3|O3]; [lia|]. assert (nodes * one <= nodes * s) by (apply Z.mul_le_mono_nonneg_l; lia). lia.
Qed.

(* The last lines of `share`, for a count and a period. *)
Ltac last_lines c' p' b nodes :=
  change LONGEST with (Some (2 ^ 58)); cbn [bind]; rewrite !(wrap_u128 (2 ^ 58)) by lia;
  rewrite checked_u128 by lia; cbn [fst snd negb];
  replace (p' =? 0) with false by (symmetry; apply Z.eqb_neq; lia); cbn [negb];
  rewrite !(wrap_u64 nodes) by lia;
  replace (nodes =? 0) with false by (symmetry; apply Z.eqb_neq; lia); cbn [negb];
  rewrite !(wrap_u128 (b / nodes)) by lia.
(* The burst: the smaller one, or 1. *)
Ltac burst_of most part :=
  assert (0 <= most) by (apply Z.div_pos; lia);
  destruct (part <? most) eqn:Less; cbn [negb];
  [apply Z.ltb_lt in Less; rewrite (Z.min_l part most) by lia|apply Z.ltb_ge in Less; rewrite (Z.min_r part most) by lia];
  match goal with |- context [?x =? 0] => destruct (x =? 0); cbn [negb] end; rewrite !wrap_u64 by lia; reflexivity.

(* `share` never panics for a valid quota of which the share has a token in 2^58 ns. *)
Theorem share_is_exact : forall c p b nodes, is_valid c p b -> 1 <= nodes < 2 ^ 32 -> p * nodes <= 2 ^ 58 * c ->
  exists c' p' b', share (Build_quota c p b) nodes = Some (Build_quota c' p' b') /\ is_share c p b nodes c' p' b' /\
    (p * nodes < 2 ^ 64 -> c' = c /\ p' = p * nodes).
Proof.
  intros c p b nodes V Hn One. pose proof V as (Hc & Hp & Hb & Hc64 & Hd & Hl & Hlong).
  pose proof (product p nodes (2 ^ 64) (2 ^ 32) ltac:(lia) ltac:(lia)) as Pn.
  assert (Pp : p <= p * nodes).
  { assert (p * 1 <= p * nodes) by (apply Z.mul_le_mono_nonneg_l; lia). lia. }
  pose proof (Z.mul_div_le b nodes ltac:(lia)) as Bn. assert (B0 : 0 <= b / nodes) by (apply Z.div_pos; lia).
  assert (Bb : b / nodes <= b).
  { assert (b / nodes * 1 <= b / nodes * nodes) by (apply Z.mul_le_mono_nonneg_l; lia). lia. }
  assert (B64 : b <= 2 ^ 62) by (apply Z.mul_le_mono_pos_r with p; lia).
  unfold share. cbv zeta. cbn [quota_count quota_period quota_burst fst snd].
  rewrite !(wrap_u128 c), !(wrap_u128 p), !(wrap_u128 nodes) by lia. rewrite checked_u128 by lia. cbn [fst snd negb].
  cbn [greatest u64]. change (wrap u128 18446744073709551615) with 18446744073709551615.
  destruct (18446744073709551615 <? p * nodes) eqn:Long; cbn [negb].
  - apply Z.ltb_lt in Long. rewrite checked_u128 by lia. cbn [fst snd negb].
    replace (p * nodes =? 0) with false by (symmetry; apply Z.eqb_neq; lia). cbn [negb].
    set (long := p * nodes) in *. set (c' := c * 18446744073709551615 / long).
    pose proof (Z.div_mod (c * 18446744073709551615) long ltac:(lia)) as D.
    pose proof (Z.mod_pos_bound (c * 18446744073709551615) long ltac:(lia)) as M. fold c' in D.
    set (rest := (c * 18446744073709551615) mod long) in *.
    assert (C1 : 63 <= c').
    { apply Z.div_le_lower_bound; lia. }
    assert (C2 : c' <= c).
    { apply Z.div_le_upper_bound; [lia|]. rewrite (Z.mul_comm long c). apply Z.mul_le_mono_nonneg_l; lia. }
    rewrite (checked_u128 (c' * long)) by lia. cbn [fst snd negb]. unfold div_ceil.
    replace (c =? 0) with false by (symmetry; apply Z.eqb_neq; lia). cbn [bind].
    pose proof (ceil_spec (c' * long) c ltac:(lia)) as S. set (p' := (c' * long + c - 1) / c) in *.
    assert (P1 : p' <= 18446744073709551615).
    { assert ((p' - 1) * c < 18446744073709551615 * c) as X by lia. apply Z.mul_lt_mono_pos_r in X; lia. }
    assert (P2 : 1 <= p').
    { assert (0 * c < p' * c) as X by lia. apply Z.mul_lt_mono_pos_r in X; lia. }
    assert (P3 : p' <= 2 ^ 58 * c').
    { assert ((p' - 1) * c < 2 ^ 58 * c' * c) as X.
      { assert (c' * long <= c' * (2 ^ 58 * c)) by (apply Z.mul_le_mono_nonneg_l; lia). lia. }
      apply Z.mul_lt_mono_pos_r in X; lia. }
    pose proof (share_of c p b nodes c' p' V Hn ltac:(lia) ltac:(lia) ltac:(fold long; lia) P3) as Sh. cbv zeta in Sh.
    last_lines c' p' b nodes.
    exists c', p', (if Z.min (b / nodes) (2 ^ 58 * c' / p') =? 0 then 1 else Z.min (b / nodes) (2 ^ 58 * c' / p')).
    split; [|split; [exact Sh|lia]].
    burst_of (2 ^ 58 * c' / p') (b / nodes).
  - apply Z.ltb_ge in Long.
    pose proof (share_of c p b nodes c (p * nodes) V Hn ltac:(lia) ltac:(lia) ltac:(lia) One) as Sh. cbv zeta in Sh.
    last_lines c (p * nodes) b nodes.
    exists c, (p * nodes), (if Z.min (b / nodes) (2 ^ 58 * c / (p * nodes)) =? 0 then 1
      else Z.min (b / nodes) (2 ^ 58 * c / (p * nodes))).
    split; [|split; [exact Sh|split; reflexivity]].
    burst_of (2 ^ 58 * c / (p * nodes)) (b / nodes).
Qed.

(* With the default algorithm: n tokens are admitted by a share at ticks from t1 to t2 of its clock, t = t2 - t1 apart. *)
Definition admits (c p b t n : Z) := exists t1 t2 from s, 0 <= t1 <= t2 /\ t2 - t1 = t /\
  run (first_unit c p t1) (units c p t2) (K c p * b) {| tat := from; admitted := 0; others := 0 |} s /\
  admitted s = K c p * n.
Definition sum := fold_right Z.add 0.

(* All together. Both sides are multiplied by the period. *)
Theorem split_bound : forall c p b nodes share_ t ns, is_valid c p b -> 1 <= nodes < 2 ^ 32 -> p * nodes <= 2 ^ 58 * c ->
  0 <= t -> share (Build_quota c p b) nodes = Some share_ -> Z.of_nat (length ns) = nodes ->
  Forall (admits (quota_count share_) (quota_period share_) (quota_burst share_) t) ns ->
  sum ns * p < Z.max b nodes * p + c * (t + 1).
Proof.
  intros c p b nodes share_ t ns V Hn One Ht E Len H.
  destruct (share_is_exact c p b nodes V Hn One) as (c' & p' & b' & E' & (V' & Rate & Burst) & _).
  rewrite E in E'. inversion E'; subst share_. cbn [quota_count quota_period quota_burst] in H. clear E E'.
  assert (S : sum ns * p' <= Z.of_nat (length ns) * (b' * p' + c' * (t + 1) - 1)).
  { clear Len. induction H as [|n ns A _ IH]; [cbn; lia|].
    destruct A as (t1 & t2 & from & s & H12 & Et & R & An).
    pose proof (readme_bound c' p' b' t1 t2 from s n V' H12 R An) as B. rewrite Et in B.
    change (sum (n :: ns)) with (n + sum ns). cbn [length]. rewrite Nat2Z.inj_succ. lia. }
  rewrite Len in S. destruct V' as (Hc' & Hp' & Hb' & _). destruct V as (Hc & Hp & _).
  assert (X : nodes * b' * p' * p <= Z.max b nodes * p' * p) by (repeat (apply Z.mul_le_mono_nonneg_r; [lia|]); exact Burst).
  assert (Y : c' * (p * nodes) * (t + 1) <= c * p' * (t + 1)) by (apply Z.mul_le_mono_nonneg_r; lia).
  assert (W : sum ns * p' * p <= nodes * (b' * p' + c' * (t + 1) - 1) * p) by (apply Z.mul_le_mono_nonneg_r; lia).
  apply Z.mul_lt_mono_pos_r with p'; [lia|].
  assert (N : 0 < nodes * p) by (apply Z.mul_pos_pos; lia). lia.
Qed.
Print Assumptions split_bound.
