(* Refunds never mint: a refund is never of units that time has paid off, so no refund makes room for a call that would not
   have been admitted without the refunded one. The arithmetic of `Refunds::give` is as the compiler has it. The list of
   kept refunds is written by hand here: `give` below is compared with the compiled `Refunds::give` on random calls
   (Random.v), more than the list keeps. *)
Require Import ZArith Lia Bool List.
Require Import Machine Code Arithmetic.
Import ListNotations.
Open Scope Z_scope.

(* The arithmetic never panics, and is a difference that is at least 0. *)
Theorem newer_is_exact : forall newest ticket refunded, 0 <= newest < 2 ^ 64 -> 0 <= ticket < 2 ^ 64 -> 0 <= refunded ->
  newer newest ticket refunded = Some (Z.max 0 (newest - ticket - refunded)).
Proof.
  intros newest ticket refunded Hn Ht Hr. unfold newer, saturating_sub, clamp. cbn [bind least greatest u64]. f_equal. lia.
Qed.
(* `refundable` is what is not paid off, without the newer charges, and at most the charge. *)
Theorem refundable_is_exact : forall units unpaid newer_, 0 <= units -> 0 <= unpaid < 2 ^ 64 -> 0 <= newer_ ->
  refundable units unpaid newer_ = Some (Z.min units (Z.max 0 (unpaid - newer_))).
Proof.
  intros units unpaid newer_ Hu Hp Hn. unfold refundable, saturating_sub, clamp. cbv zeta. cbn [bind least greatest u64].
  replace (Z.max 0 (Z.min (unpaid - newer_) 18446744073709551615)) with (Z.max 0 (unpaid - newer_)) by lia.
  destruct (units <? Z.max 0 (unpaid - newer_)) eqn:E; cbn [negb]; f_equal.
  - apply Z.ltb_lt in E. lia.
  - apply Z.ltb_ge in E. lia.
Qed.

(* The kept refunds: tickets, rising, and the refund of each. *)
Definition kept := list (Z * Z).
(* The refunds of charges after a ticket, and all of them. *)
Fixpoint after (x : Z) (k : kept) : Z :=
  match k with [] => 0 | (t, g) :: rest => (if x <? t then g else 0) + after x rest end.
Fixpoint all (k : kept) : Z := match k with [] => 0 | (_, g) :: rest => g + all rest end.

(* `Refunds::forget_paid`: the first ones, up to one that is not paid off. *)
Fixpoint forget (k : kept) (newest unpaid later : Z) : option kept :=
  match k with
  | [] => Some []
  | (t, g) :: rest => bind (newer newest t (later - g)) (fun n =>
      if unpaid <=? n then forget rest newest unpaid (later - g) else Some k)
  end.
(* When the list is full, the second refund counts as one of the first charge. *)
Definition merge (k : kept) : kept :=
  match k with (t, g) :: (_, h) :: rest => (t, g + h) :: rest | _ => k end.
(* A refund is put before those of the same ticket and later ones. *)
Fixpoint insert (t g : Z) (k : kept) : kept :=
  match k with [] => [(t, g)] | (u, h) :: rest => if u <? t then (u, h) :: insert t g rest else (t, g) :: k end.

(* `Refunds::give`, for a list of so many entries at most. *)
Definition give (capacity : nat) (k : kept) (newest ticket units unpaid : Z) : option (Z * kept) :=
  bind (newer newest ticket (after ticket k)) (fun n => bind (refundable units unpaid n) (fun given =>
  if given =? 0 then Some (0, k) else bind (forget k newest unpaid (all k)) (fun k =>
  let k := if (length k =? capacity)%nat then merge k else k in Some (given, insert ticket given k)))).

(* The tickets rise, and no refund is below 0. *)
Fixpoint in_order (k : kept) : Prop :=
  match k with
  | [] => True
  | (t, g) :: rest => 0 <= g /\ match rest with [] => True | (u, _) :: _ => t <= u end /\ in_order rest
  end.
(* The refunds after a ticket are not negative. *)
Lemma after_is_not_negative : forall k x, in_order k -> 0 <= after x k.
Proof.
  induction k as [|(t, g) k IH]; intros x H; cbn [after]; [lia|]. destruct H as (Hg & _ & H). specialize (IH x H).
  destruct (x <? t); lia.
Qed.
(* What `forget` and `merge` leave is in order, and never more after any ticket. So later refunds are smaller, not larger. *)
Lemma forget_is_less : forall k newest unpaid later k', in_order k -> forget k newest unpaid later = Some k' ->
  in_order k' /\ forall x, after x k' <= after x k.
Proof.
  induction k as [|(t, g) k IH]; intros newest unpaid later k' H E; cbn [forget] in E.
  - inversion E. split; [exact I|]. intro x. lia.
  - destruct (newer newest t (later - g)) as [n|]; [|discriminate]. cbn [bind] in E. destruct (unpaid <=? n).
    + destruct H as (Hg & _ & H). destruct (IH _ _ _ _ H E) as (O & A). split; [exact O|]. intro x. specialize (A x).
      cbn [after]. destruct (x <? t); lia.
    + inversion E. split; [exact H|]. intro x. lia.
Qed.
(* Two refunds that become one count for no more tickets than before. *)
Lemma merge_is_less : forall k, in_order k -> in_order (merge k) /\ forall x, after x (merge k) <= after x k.
Proof.
  intros [|(t, g) [|(u, h) k]] H; cbn [merge]; try (split; [exact H|intro; lia]).
  destruct H as (Hg & Le & Hh & Next & H). split.
  - cbn [in_order]. split; [lia|]. split; [|exact H]. destruct k as [|(v, w) k]; [exact I|lia].
  - intro x. cbn [after]. destruct (x <? t) eqn:E1; destruct (x <? u) eqn:E2; lia.
Qed.
(* A new refund counts for the tickets before its own, and changes no other. *)
Lemma insert_is_one_more : forall k t g, in_order k -> 0 <= g -> in_order (insert t g k) /\
  (forall x, after x (insert t g k) = after x k + if x <? t then g else 0).
Proof.
  induction k as [|(u, h) k IH]; intros t g H Hg; cbn [insert].
  - split; [cbn; lia|]. intro x. cbn [after]. lia.
  - destruct (u <? t) eqn:E.
    + destruct H as (Hh & Le & H). destruct (IH t g H Hg) as (O & A). split.
      * cbn [in_order]. split; [exact Hh|]. split; [|exact O]. apply Z.ltb_lt in E.
        destruct k as [|(v, w) k]; cbn [insert] in *; [lia|]. destruct (v <? t); lia.
      * intro x. cbn [after]. rewrite A. lia.
    + split; [|intro x; cbn [after]; lia]. apply Z.ltb_ge in E. cbn [in_order]. split; [exact Hg|]. split; [lia|exact H].
Qed.

(* A limiter: the end of the backlog, the sum of all refunds, the charges with their tickets, the newest first, and the
   kept refunds. A charge begins at the end of the backlog or later; its ticket is its end and all refunds so far. *)
Record charge := { ticket_of : Z; price_of : Z; refunded_of : Z }.
Record book := { end_ : Z; total : Z; charges : list charge; refunds : kept }.
Definition newest (b : book) := end_ b + total b.
(* What of some charges is not refunded. *)
Fixpoint outstanding (l : list charge) : Z :=
  match l with [] => 0 | c :: rest => price_of c - refunded_of c + outstanding rest end.

(* Refunds of one charge: at most what of it is not refunded yet. `later` are the charges after it. *)
Definition gives (capacity : nat) (b : book) (later : list charge) (c : charge) (earlier : list charge) (units now : Z)
    (b' : book) (given : Z) := charges b = later ++ c :: earlier /\ 0 <= units <= price_of c - refunded_of c /\
  exists k, give capacity (refunds b) (newest b) (ticket_of c) units (Z.max 0 (end_ b - now)) = Some (given, k) /\
    b' = {| end_ := end_ b - given; total := total b + given; refunds := k;
      charges := later ++ {| ticket_of := ticket_of c; price_of := price_of c; refunded_of := refunded_of c + given |} :: earlier |}.
Inductive life (capacity : nat) : book -> Prop :=
  | Begin : forall e, 0 <= e < 2 ^ 64 -> life capacity {| end_ := e; total := 0; charges := []; refunds := [] |}
  | Charged : forall b start price, life capacity b -> 0 <= price ->
      Z.max (end_ b) start + price + total b < 2 ^ 64 ->
      life capacity {| end_ := Z.max (end_ b) start + price; total := total b; refunds := refunds b;
        charges := {| ticket_of := Z.max (end_ b) start + price + total b; price_of := price; refunded_of := 0 |} :: charges b |}
  | Refunded : forall b later c earlier units now b' given, life capacity b -> 0 <= now ->
      gives capacity b later c earlier units now b' given -> life capacity b'.

(* What holds: the charges since a ticket are at most the difference of the tickets; of the refunds after any ticket, none
   is kept that was not given; and nothing more is refunded than was charged. *)
Fixpoint refunded_after (x : Z) (l : list charge) : Z :=
  match l with [] => 0 | c :: rest => (if x <? ticket_of c then refunded_of c else 0) + refunded_after x rest end.
Fixpoint numbered (top : Z) (l : list charge) : Prop :=
  match l with
  | [] => True
  | c :: rest => 0 <= ticket_of c <= top /\ 0 <= refunded_of c <= price_of c /\ numbered (ticket_of c - price_of c) rest
  end.
Definition sound (b : book) := 0 <= end_ b /\ 0 <= total b /\ newest b < 2 ^ 64 /\ numbered (newest b) (charges b) /\
  in_order (refunds b) /\ forall x, after x (refunds b) <= refunded_after x (charges b).

(* Charges whose tickets are at most s have tickets of at most a larger t. *)
Lemma numbered_higher : forall l s t, s <= t -> numbered s l -> numbered t l.
Proof. intros [|c l] s t H N; cbn [numbered] in *; [exact I|]. destruct N as (N1 & N2). split; [lia|exact N2]. Qed.
(* Of the later charges, nothing more than the difference of the tickets is outstanding, less the refunds after it. *)
Lemma later_charges : forall later top c earlier, numbered top (later ++ c :: earlier) ->
  0 <= ticket_of c <= top /\ 0 <= refunded_of c <= price_of c /\ 0 <= outstanding later /\
  outstanding later + refunded_after (ticket_of c) (later ++ c :: earlier) <= top - ticket_of c.
Proof.
  assert (Low : forall l top x, top <= x -> numbered top l -> refunded_after x l = 0).
  { induction l as [|d l IH]; intros top x H N; cbn [refunded_after]; [reflexivity|]. destruct N as (N1 & N2 & N3).
    rewrite (IH (ticket_of d - price_of d) x) by (try exact N3; lia).
    replace (x <? ticket_of d) with false by (symmetry; apply Z.ltb_ge; lia). reflexivity. }
  induction later as [|d later IH]; intros top c earlier N; cbn [app numbered outstanding refunded_after] in *.
  - destruct N as (N1 & N2 & N3). rewrite Z.ltb_irrefl. rewrite (Low earlier (ticket_of c - price_of c)) by (try exact N3; lia). lia.
  - destruct N as (N1 & N2 & N3). destruct (IH _ _ _ N3) as (I1 & I2 & I3 & I4).
    destruct (ticket_of c <? ticket_of d) eqn:E; [lia|]. apply Z.ltb_ge in E. lia.
Qed.

(* What `give` gives, and what it leaves. *)
Lemma give_is : forall capacity k newest_ ticket units unpaid given k', in_order k -> 0 <= newest_ < 2 ^ 64 ->
  0 <= ticket < 2 ^ 64 -> 0 <= units -> 0 <= unpaid < 2 ^ 64 -> give capacity k newest_ ticket units unpaid = Some (given, k') ->
  given = Z.min units (Z.max 0 (unpaid - Z.max 0 (newest_ - ticket - after ticket k))) /\ in_order k' /\
  forall x, after x k' <= after x k + if x <? ticket then given else 0.
Proof.
  intros capacity k newest_ ticket units unpaid given k' O Hn Ht Hu Hp E. unfold give in E.
  pose proof (after_is_not_negative k ticket O) as A0. rewrite newer_is_exact in E by lia. cbn [bind] in E.
  rewrite refundable_is_exact in E by lia. cbn [bind] in E.
  set (g := Z.min units (Z.max 0 (unpaid - Z.max 0 (newest_ - ticket - after ticket k)))) in *.
  destruct (g =? 0) eqn:G.
  - apply Z.eqb_eq in G. inversion E; subst. split; [lia|]. split; [exact O|]. intro x. destruct (x <? ticket); lia.
  - destruct (forget k newest_ unpaid (all k)) as [f|] eqn:F; [|discriminate]. cbn [bind] in E.
    destruct (forget_is_less _ _ _ _ _ O F) as (Of & Af). cbv zeta in E.
    destruct ((length f =? capacity)%nat); inversion E; subst given k'; (split; [reflexivity|]).
    + destruct (merge_is_less f Of) as (Om & Am). destruct (insert_is_one_more _ ticket g Om ltac:(lia)) as (Oi & Ai).
      split; [exact Oi|]. intro x. rewrite Ai. specialize (Af x). specialize (Am x). lia.
    + destruct (insert_is_one_more _ ticket g Of ltac:(lia)) as (Oi & Ai). split; [exact Oi|]. intro x. rewrite Ai.
      specialize (Af x). lia.
Qed.

(* A refund of one charge. *)
Lemma refund_of_one : forall later c earlier given top, numbered top (later ++ c :: earlier) ->
  0 <= given <= price_of c - refunded_of c ->
  let l := later ++ {| ticket_of := ticket_of c; price_of := price_of c; refunded_of := refunded_of c + given |} :: earlier in
  numbered top l /\ forall x,
    refunded_after x l = refunded_after x (later ++ c :: earlier) + if x <? ticket_of c then given else 0.
Proof.
  induction later as [|d later IH]; intros c earlier given top N H; cbn [app numbered refunded_after] in *.
  - destruct N as (N1 & N2 & N3). cbn [ticket_of price_of refunded_of]. split; [|intro x; destruct (x <? ticket_of c); lia].
    split; [exact N1|]. split; [lia|exact N3].
  - destruct N as (N1 & N2 & N3). destruct (IH c earlier given _ N3 H) as (I1 & I2). split.
    + split; [exact N1|]. split; [exact N2|exact I1].
    + intro x. rewrite I2. lia.
Qed.

(* After any charges and refunds, the kept refunds count no more than what was refunded. *)
Lemma life_is_sound : forall capacity b, life capacity b -> sound b.
Proof.
  intros capacity b H. induction H as [e He|b start price _ IH Hp Fits|b later c earlier units now b' given _ IH Hnow G].
  - unfold sound, newest. cbn. repeat split; lia.
  - destruct IH as (S1 & S2 & S3 & S4 & S5 & S6). unfold sound, newest in *. cbn [end_ total charges refunds].
    split; [lia|]. split; [lia|]. split; [lia|]. split; [|split; [exact S5|]].
    + cbn [numbered ticket_of price_of refunded_of]. split; [lia|]. split; [lia|].
      apply numbered_higher with (s := end_ b + total b); [lia|exact S4].
    + intro x. cbn [refunded_after ticket_of refunded_of]. specialize (S6 x). destruct (x <? _); lia.
  - destruct IH as (S1 & S2 & S3 & S4 & S5 & S6). destruct G as (Ch & Hu & k & E & B). rewrite Ch in S4.
    destruct (later_charges _ _ _ _ S4) as (L1 & L2 & L3 & L4). unfold newest in *.
    destruct (give_is capacity (refunds b) (end_ b + total b) (ticket_of c) units (Z.max 0 (end_ b - now)) given k S5 ltac:(lia) ltac:(lia) ltac:(lia) ltac:(lia) E) as (Gv & Ok & Ak).
    destruct (refund_of_one later c earlier given _ S4 ltac:(lia)) as (R1 & R2).
    subst b'. unfold sound, newest. cbn [end_ total charges refunds]. split; [lia|]. split; [lia|]. split; [lia|].
    replace (end_ b - given + (total b + given)) with (end_ b + total b) by ring.
    split; [exact R1|]. split; [exact Ok|]. intro x. rewrite R2. specialize (Ak x). specialize (S6 x). rewrite Ch in S6. lia.
Qed.

(* The promise: if anything is given, then from now on to the end of the backlog there is room for what is outstanding of all
   later charges and for the refund. So the refund is of units that lie in the future, and moves only later charges, all of
   which still begin after now. It is the condition of `RefundBefore` in Gcra.v and of `RefundEarlier` in Changes.v. *)
Theorem refunds_never_mint : forall capacity b later c earlier units now b' given, life capacity b -> 0 <= now ->
  gives capacity b later c earlier units now b' given ->
  0 <= given <= units /\ (0 < given -> now + outstanding later + given <= end_ b).
Proof.
  intros capacity b later c earlier units now b' given H Hnow (Ch & Hu & k & E & B).
  destruct (life_is_sound capacity b H) as (S1 & S2 & S3 & S4 & S5 & S6). rewrite Ch in S4.
  destruct (later_charges _ _ _ _ S4) as (L1 & L2 & L3 & L4). unfold newest in *.
  destruct (give_is capacity (refunds b) (end_ b + total b) (ticket_of c) units (Z.max 0 (end_ b - now)) given k S5 ltac:(lia) ltac:(lia) ltac:(lia) ltac:(lia) E) as (Gv & _).
  specialize (S6 (ticket_of c)). rewrite Ch in S6. lia.
Qed.
Print Assumptions refunds_never_mint.
