(* The translated functions on random inputs. A test of the crate (`functions_on_random_inputs_agree_with_their_translation`)
   draws the same inputs for the compiled functions, and both must come to the same numbers, which are in
   proofs/random-inputs. So a mistake in Machine.v or in the translator would be seen. Each of the 2,500 draws makes two
   sets of parameters, and calls every function for each of them: more than 100,000 calls; and it asks which rules the quota and
   a shorter one get. The last number is that of 2,500
   refunds, by the list of Refunds.v and by the compiled one: more than it keeps. *)
Require Import ZArith List.
Require Import Machine Code Refunds Rule.
Require Window Log.
Import ListNotations.
Open Scope Z_scope.

(* A linear congruential generator. A drawn number has a random length, so that small ones occur. *)
Definition next (x : Z) := Z.land (x * 6364136223846793005 + 1442695040888963407) 18446744073709551615.
Definition draw (x : Z) : Z * Z := let y := next x in let z := next y in (z, Z.shiftr y (Z.shiftr z 58)).

(* The sum of what the functions return: each value moves all before it. *)
Definition add (h v : Z) := Z.land (h * 5 + v + 1) 18446744073709551615.
Definition sum (values : list Z) (h : Z) := fold_left add values h.

Definition of_bool (b : bool) := if b then 1 else 0.
Definition of_result (r : Z + Z) := match r with inl it => it | inr it => it + 1 end.

(* Every function of parameters, for a tick, a number of units, a cost and a price. *)
Definition calls (p : params) (t u n : Z) (h : Z) : option Z :=
  let '(s1, s0) := params_surplus p in let '(l1, l0) := params_lack p in
  bind (units_at p t) (fun passed => bind (units_after p t) (fun after => bind (tick_at p u) (fun tick =>
  bind (units_of p n) (fun of => bind (tokens p u) (fun whole => bind (backlog p u) (fun owed => bind (burst p) (fun most =>
  bind (is_stepped p) (fun steps =>
  bind (if steps then step_begun p t else Some 0) (fun begun => bind (start_after_change p (n mod 2 =? 0) t) (fun later => bind (tat_from_units u) (fun tat => bind (tat_backlog_at tat passed) (fun ahead =>
  bind (tat_take tat p passed (n mod (params_burst_tolerance p + 1))) (fun taken => bind (tat_give tat n) (fun given =>
  bind (tat_due tat p n n) (fun due => bind (tat_grant_start tat p t) (fun start => bind (tat_charge tat p passed n) (fun charged =>
  bind (is_dense p) (fun dense => bind (is_even p) (fun even =>
  bind (if dense then Some 0 else units_unless_dense p t) (fun unless =>
  Some (sum [s1; s0; l1; l0; params_emission_interval p; params_burst_tolerance p; params_step p; params_start p; params_stride p;
    passed; after; tick; of; whole; owed; most; begun; later; tat; ahead; of_result taken; given; due; start; fst charged;
    snd charged; of_bool dense; of_bool steps; of_bool even; unless] h))))))))))))))))))))).

(* The functions of a pause, also at the last tick and at three equal ones. *)
Definition pauses (one two three : Z) (h : Z) : option Z :=
  let never := 18446744073709551615 in
  fold_left (fun h '(end_, until, now) => bind h (fun h =>
    bind (end_of_pause end_ until now) (fun a => bind (has_ended end_ now) (fun b => bind (not_before until end_) (fun c =>
    bind (tick_has_come until now) (fun d => bind (granted_at end_ until now) (fun e =>
    Some (sum [a; of_bool b; c; of_bool d; e] h))))))))
    [(one, two, three); (one, never, three); (one, one, one); (two, never, never)] (Some h).

(* Changes of the quota of a sliding window, both ways, and of the charges of a log in proportion. *)
Definition windows (p1 t u n b : Z) (h : Z) : Z :=
  let c1 := 1 + n mod Z.min p1 (2 ^ 40) in let p2 := 1 + b mod 2 ^ 58 in let c2 := 1 + u mod Z.min p2 (2 ^ 40) in
  let now := t mod 2 ^ 57 in let start := now - u mod p1 in let passed := (now - start) mod p2 in
  let w := {| Window.most_of := c1; Window.period_of := p1; Window.start_of := start; Window.previous := b mod (c1 + 1);
    Window.counted := n mod 2 ^ 41 |} in
  fold_left (fun h how =>
    let x := Window.change_of how w now c2 p2 (now - passed) (Window.fading_of how w now c2 p2 passed) in
    sum [Window.start_of x; Window.previous x; Window.counted x] h) [true; false] h.
Definition logs (t u n b : Z) (h : Z) : Z :=
  let old := 1 + n mod 64 in let made := u mod (old + 1) in let ahead := if made =? old then t mod 100 else 0 in
  let '(made, ahead) := Log.scaled_log made ahead old (1 + b mod 64) in sum [made; ahead] h.

(* The functions of two sets of parameters, of a quota and of refunds. *)
Definition others (p q : params) (of : quota) (t u n : Z) (h : Z) : option Z :=
  let nodes := 1 + n mod 1000 in
  let nodes := if quota_period of * nodes <=? 2 ^ 58 * quota_count of then nodes else 1 in
  bind (tat_from_units u) (fun tat => bind (tat_carry tat 0 p q t) (fun a => bind (tat_carry tat 1 p q t) (fun b =>
  bind (tat_carry tat 0 q p t) (fun c' => bind (tat_carry tat 1 q p t) (fun d => bind (newer u t n) (fun e =>
  bind (refundable n u t) (fun f => bind (pauses t u n (sum [a; b; c'; d; e; f] h)) (fun h =>
  bind (share of nodes) (fun s =>
  let h := logs t u n u (windows (Z.min (quota_period of) (2 ^ 58)) t u n (quota_burst of) h) in
  Some (sum [quota_count s; quota_period s; quota_burst s] h)))))))))).

(* Which rule a quota gets with each algorithm, if any; and for one of them, the parameters, which take longer. *)
Definition rule_of (c p b : Z) (a : algorithm) (whole : bool) (h : Z) : option Z :=
  if fits a c p b then let '(c', p', b') := batch_of a c p b in
    let h := sum [1; c'; p'; b'] h in
    if whole then
      bind (match a with Even => new (Build_quota c' p' b') | _ => stepped c' p' b' end) (fun it =>
      Some (sum [params_emission_interval it; params_burst_tolerance it; fst (params_surplus it); params_step it;
        params_stride it] h))
    else Some h
  else Some (add h 0).
Definition rules (c p b n : Z) (h : Z) : option Z :=
  fold_left (fun h '(at_, a) => bind h (rule_of c p b a (at_ =? n mod 6)))
    [(0, Even); (1, TokenBucket); (2, FixedWindow); (3, SlidingWindow); (4, SlidingLog); (5, SubInterval (n mod 8))] (Some h).

(* One draw: a quota, and batches; then the calls for both. *)
Definition one (x h : Z) : option (Z * Z) :=
  let '(x, period) := draw x in let '(x, c) := draw x in let '(x, b) := draw x in
  let '(x, t) := draw x in let '(x, u) := draw x in let '(x, n) := draw x in let '(x, start) := draw x in
  let h := add h (of_bool (is_accepted c period b)) in
  let period := Z.max 1 period in
  let least := (period + 2 ^ 58 - 1) / 2 ^ 58 in
  let count := Z.max least (Z.min c (Z.min (16 * period) (2 ^ 64 - 1))) in
  let most := Z.min (2 ^ 56) (2 ^ 58 * count / period) in
  let burst := 1 + b mod most in
  bind (new (Build_quota count period burst)) (fun even =>
  bind (calls even t u n h) (fun h =>
  let short := Z.min period (2 ^ 58) in
  bind (stepped (Z.min count short) short (Z.min (Z.max 1 b) (2 ^ 56))) (fun batches =>
  bind (starting batches (start / 2 - 2 ^ 57)) (fun batches =>
  bind (calls batches t u n h) (fun h => bind (others even batches (Build_quota count period burst) t u n h) (fun h =>
  bind (rules count period burst n h) (fun h =>
  bind (rules (Z.min count short) short (if n mod 2 =? 0 then 1 else Z.min count short) n h) (fun h => Some (x, h))))))))).

(* Every hundredth sum, so that a difference is near its cause. None would be a panic. *)
Fixpoint many (times : nat) (x h : Z) : option (Z * Z) :=
  match times with O => Some (x, h) | S less => bind (one x h) (fun '(x, h) => many less x h) end.
Fixpoint sums (times : nat) (x h : Z) : list (option Z) :=
  match times with
  | O => []
  | S less => match many 100 x h with
    | Some (x, h) => Some h :: sums less x h
    | None => [None]
    end
  end.

(* A charge, sometimes a while in which half of the backlog is paid off, and a refund of any ticket that is not. *)
Fixpoint refunds_of (times : nat) (x newest unpaid : Z) (k : kept) (h : Z) : option Z :=
  match times with O => Some h | S less =>
    let '(x, price) := draw x in let '(x, back) := draw x in let '(x, units) := draw x in
    let price := 1 + price mod 1000 in let newest := newest + price in let unpaid := unpaid + price in
    let unpaid := if Z.shiftr x 40 mod 2000 =? 0 then unpaid / 2 else unpaid in
    bind (give 1024 k newest (newest - back mod (unpaid + 1)) (units mod 8) unpaid) (fun '(given, k) =>
    refunds_of less x newest (unpaid - given) k (add h given))
  end.
Set Printing Width 60.
Eval vm_compute in sums 25 1 0 ++ [refunds_of 2500 1 0 0 [] 0].
