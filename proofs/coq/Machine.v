(* The machine: integers of Rust as numbers of Z, the checks for overflow, and the functions of the standard library
   that the translated code calls. This file is believed, not proved: it says what rustc means. Random inputs compare it
   with the compiled functions (Random.v). *)
Require Import ZArith Lia Bool.
Open Scope Z_scope.

(* The types of integers: the least and the greatest number. *)
Record int := { least : Z; greatest : Z }.
Definition u32 := {| least := 0; greatest := 4294967295 |}.
Definition i32 := {| least := -2147483648; greatest := 2147483647 |}.
Definition u64 := {| least := 0; greatest := 18446744073709551615 |}.
Definition i64 := {| least := -9223372036854775808; greatest := 9223372036854775807 |}.
Definition u128 := {| least := 0; greatest := 340282366920938463463374607431768211455 |}.
Definition usize := u64.
Definition isize := i64.

Definition fits (t : int) (x : Z) : bool := (least t <=? x) && (x <=? greatest t).

(* What remains of a number in a type: mostly all of it, which is computed first because that is fast. *)
Definition wrap (t : int) (x : Z) :=
  if fits t x then x else (x - least t) mod (greatest t - least t + 1) + least t.
Definition shl (t : int) (x by_ : Z) := wrap t (Z.shiftl x by_).
Definition shr (x by_ : Z) := Z.shiftr x by_.

(* The result of an operation, and whether it has left its type. *)
Definition checked (t : int) (x : Z) : Z * bool := (wrap t x, negb (fits t x)).

(* A function that may panic: None is a panic. *)
Definition bind {A B} (x : option A) (f : A -> option B) : option B :=
  match x with Some it => f it | None => None end.

Definition is_some {A} (x : option A) : bool := match x with Some _ => true | None => false end.
(* The content of a value that is known to have one: rustc reads it only behind a test of the discriminant. *)
Definition content (x : option Z) : Z := match x with Some it => it | None => 0 end.
(* An array of two. An index is checked before. *)
Definition element (x : Z * Z) (index : Z) : Z := if index =? 0 then fst x else snd x.

(* The standard library. *)
Definition clamp (t : int) (x : Z) := Z.max (least t) (Z.min x (greatest t)).
Definition div_ceil (t : int) (a b : Z) : option Z := if b =? 0 then None else Some ((a + b - 1) / b).
Definition saturating_add (t : int) (a b : Z) : option Z := Some (clamp t (a + b)).
Definition saturating_sub (t : int) (a b : Z) : option Z := Some (clamp t (a - b)).
Definition saturating_mul (t : int) (a b : Z) : option Z := Some (clamp t (a * b)).
Definition saturating_add_signed (t : int) (a b : Z) : option Z := Some (clamp t (a + b)).
Definition wrapping_add (t : int) (a b : Z) : option Z := Some (wrap t (a + b)).
Definition wrapping_sub (t : int) (a b : Z) : option Z := Some (wrap t (a - b)).
Definition wrapping_mul (t : int) (a b : Z) : option Z := Some (wrap t (a * b)).
Definition checked_div (t : int) (a b : Z) : option (option Z) := Some (if b =? 0 then None else Some (a / b)).
