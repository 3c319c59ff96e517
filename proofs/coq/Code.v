(* The arithmetic of src/algorithm/{params,gcra,quota_change,refunds,ledger/pause}.rs, src/quota.rs and src/time/tick.rs,
   from MIR by proofs/mir2coq.py. Do not edit: `scripts/proofs` compares this file with the compiler. *)
Require Import ZArith.
Require Import Machine.
Open Scope Z_scope.

Record params := { params_emission_interval : Z; params_burst_tolerance : Z; params_surplus : (Z * Z); params_step : Z; params_start : Z; params_lack : (Z * Z); params_stride : Z }.

Record quota := { quota_count : Z; quota_period : Z; quota_burst : Z }.

Definition tick_from_nanos (v1 : Z) : option Z :=
  let v0 := v1 in
  Some v0.

Definition tick_as_nanos (v1 : Z) : option Z :=
  let v0 := v1 in
  Some v0.

Definition tick_is_never (v1 : Z) : option bool :=
  let v2 := v1 in
  let v0 := (v2 =? (greatest u64)) in
  Some v0.

Definition tick_has_come (v1 : Z) (v2 : Z) : option bool :=
  let v4 := v1 in
  let v5 := v2 in
  let v3 := (v4 <=? v5) in
  if negb v3 then
    let v0 := false in
    Some v0
  else
    bind (tick_is_never v1) (fun v6 =>
    let v0 := negb v6 in
    Some v0
    ).

Definition quota_is_unlimited (v1 : quota) : option bool :=
  let v3 := (quota_count v1) in
  let v2 := (v3 =? (greatest u64)) in
  if negb v2 then
    let v0 := false in
    Some v0
  else
    let v4 := (quota_period v1) in
    let v0 := (v4 =? 1) in
    Some v0.

Definition count (v1 : quota) : option Z :=
  let v0 := (quota_count v1) in
  Some v0.

Definition period_nanos (v1 : quota) : option Z :=
  let v0 := (quota_period v1) in
  Some v0.

Definition max_burst (v1 : quota) : option Z :=
  let v0 := (quota_burst v1) in
  Some v0.

Definition LAST_TICK : option Z :=
  let v2 := wrap u32 58 in
  let v3 := (v2 <? 64) in
  if v3 then
  let v1 := shl u64 1 58 in
  let v4 := checked u64 (v1 - 1) in
  if negb (snd v4) then
  let v0 := (fst v4) in
  Some v0
  else None
  else None.

Definition clamped (v1 : Z) : option Z :=
  bind (tick_as_nanos v1) (fun v2 =>
  bind LAST_TICK (fun c_LAST_TICK =>
  let v3 := (c_LAST_TICK <? v2) in
  if negb v3 then
    let v0 := v2 in
    Some v0
  else
    bind LAST_TICK (fun c_LAST_TICK =>
    let v0 := c_LAST_TICK in
    Some v0
    )
  )
  ).

Definition tick_or_never (v1 : Z) : option Z :=
  bind LAST_TICK (fun c_LAST_TICK =>
  let v3 := (c_LAST_TICK <? v1) in
  if negb v3 then
    let v2 := v1 in
    bind (tick_from_nanos v2) (fun v0 =>
    Some v0
    )
  else
    let v2 := (greatest u64) in
    bind (tick_from_nanos v2) (fun v0 =>
    Some v0
    )
  ).

Definition fraction (v1 : Z) (v2 : Z) : option (Z * Z) :=
  let v5 := wrap u32 32 in
  let v6 := (v5 <? 128) in
  if v6 then
  let v4 := shl u128 v1 32 in
  let v7 := (v2 =? 0) in
  if negb v7 then
  let v3 := v4 / v2 in
  let v10 := wrap u32 32 in
  let v11 := (v10 <? 128) in
  if v11 then
  let v9 := shl u128 v1 32 in
  let v12 := (v2 =? 0) in
  if negb v12 then
  let v8 := v9 mod v2 in
  let v15 := wrap u32 32 in
  let v16 := (v15 <? 128) in
  if v16 then
  let v14 := shl u128 v3 32 in
  let v19 := wrap u32 32 in
  let v20 := (v19 <? 128) in
  if v20 then
  let v18 := shl u128 v8 32 in
  let v21 := (v2 =? 0) in
  if negb v21 then
  let v17 := v18 / v2 in
  let v22 := checked u128 (v14 + v17) in
  if negb (snd v22) then
  let v13 := (fst v22) in
  let v25 := wrap u32 32 in
  let v26 := (v25 <? 128) in
  if v26 then
  let v24 := shl u128 v8 32 in
  let v27 := (v2 =? 0) in
  if negb v27 then
  let v23 := v24 mod v2 in
  let v30 := wrap u32 32 in
  let v31 := (v30 <? 128) in
  if v31 then
  let v29 := shl u128 v23 32 in
  let v32 := (v2 =? 0) in
  if negb v32 then
  let v28 := v29 / v2 in
  let v35 := wrap u32 32 in
  let v36 := (v35 <? 128) in
  if v36 then
  let v34 := shl u128 v23 32 in
  let v37 := (v2 =? 0) in
  if negb v37 then
  let v33 := v34 mod v2 in
  let v40 := wrap u32 32 in
  let v41 := (v40 <? 128) in
  if v41 then
  let v39 := shl u128 v28 32 in
  let v44 := wrap u32 32 in
  let v45 := (v44 <? 128) in
  if v45 then
  let v43 := shl u128 v33 32 in
  bind (div_ceil u128 v43 v2) (fun v42 =>
  let v46 := checked u128 (v39 + v42) in
  if negb (snd v46) then
  let v38 := (fst v46) in
  let v48 := wrap u64 v13 in
  let v51 := wrap u32 64 in
  let v52 := (v51 <? 128) in
  if v52 then
  let v50 := shr v38 64 in
  let v49 := wrap u64 v50 in
  let v53 := checked u64 (v48 + v49) in
  if negb (snd v53) then
  let v47 := (fst v53) in
  let v54 := wrap u64 v38 in
  let v0 := (v47, v54) in
  Some v0
  else None
  else None
  else None
  )
  else None
  else None
  else None
  else None
  else None
  else None
  else None
  else None
  else None
  else None
  else None
  else None
  else None
  else None
  else None
  else None.

Definition part (v1 : Z) (v2 : (Z * Z)) : option Z :=
  let v3 := wrap u128 v1 in
  let v8 := 1 in
  let v9 := (v8 <? 2) in
  if v9 then
  let v7 := (element v2 v8) in
  let v6 := wrap u128 v7 in
  let v10 := checked u128 (v3 * v6) in
  if negb (snd v10) then
  let v5 := (fst v10) in
  let v11 := wrap u32 64 in
  let v12 := (v11 <? 128) in
  if v12 then
  let v4 := shr v5 64 in
  let v18 := 0 in
  let v19 := (v18 <? 2) in
  if v19 then
  let v17 := (element v2 v18) in
  let v16 := wrap u128 v17 in
  let v20 := checked u128 (v3 * v16) in
  if negb (snd v20) then
  let v15 := (fst v20) in
  let v21 := checked u128 (v15 + v4) in
  if negb (snd v21) then
  let v14 := (fst v21) in
  let v22 := wrap u32 64 in
  let v23 := (v22 <? 128) in
  if v23 then
  let v13 := shr v14 64 in
  let v0 := wrap u64 v13 in
  Some v0
  else None
  else None
  else None
  else None
  else None
  else None
  else None.

Definition leaves_a_rest (v1 : Z) (v2 : (Z * Z)) : option bool :=
  let v5 := wrap u128 v1 in
  let v8 := 1 in
  let v9 := (v8 <? 2) in
  if v9 then
  let v7 := (element v2 v8) in
  let v6 := wrap u128 v7 in
  let v10 := checked u128 (v5 * v6) in
  if negb (snd v10) then
  let v4 := (fst v10) in
  let v11 := wrap u32 64 in
  let v12 := (v11 <? 128) in
  if v12 then
  let v3 := shr v4 64 in
  let v16 := wrap u128 v1 in
  let v19 := 0 in
  let v20 := (v19 <? 2) in
  if v20 then
  let v18 := (element v2 v19) in
  let v17 := wrap u128 v18 in
  let v21 := checked u128 (v16 * v17) in
  if negb (snd v21) then
  let v15 := (fst v21) in
  let v22 := checked u128 (v15 + v3) in
  if negb (snd v22) then
  let v14 := (fst v22) in
  let v13 := wrap u64 v14 in
  let v0 := negb (v13 =? 0) in
  Some v0
  else None
  else None
  else None
  else None
  else None
  else None.

Definition is_unlimited (v1 : params) : option bool :=
  let v2 := (params_emission_interval v1) in
  let v0 := (v2 =? 0) in
  Some v0.

Definition DENSE : option Z :=
  let v1 := wrap u32 63 in
  let v2 := (v1 <? 64) in
  if v2 then
  let v0 := shl u64 1 63 in
  Some v0
  else None.

Definition is_dense (v1 : params) : option bool :=
  let v2 := (params_step v1) in
  bind DENSE (fun c_DENSE =>
  let v0 := (c_DENSE <=? v2) in
  Some v0
  ).

Definition is_stepped (v1 : params) : option bool :=
  let v3 := (params_step v1) in
  let v2 := negb (v3 =? 0) in
  if negb v2 then
    let v0 := false in
    Some v0
  else
    bind (is_dense v1) (fun v4 =>
    let v0 := negb v4 in
    Some v0
    ).

Definition is_even (v1 : params) : option bool :=
  let v3 := 0 in
  let v4 := (v3 <? 2) in
  if v4 then
  let v2 := (element (params_surplus v1) v3) in
  let v0 := (v2 =? 0) in
  Some v0
  else None.

Definition NONE : option (Z * Z) :=
  let v0 := (1, 0) in
  Some v0.

Definition UNLIMITED : option params :=
  let v2 := wrap u32 58 in
  let v3 := (v2 <? 64) in
  if v3 then
  let v1 := shl u64 1 58 in
  let v4 := (0, 0) in
  let v5 := (0, 0) in
  let v0 := Build_params 0 v1 v4 0 0 v5 1 in
  Some v0
  else None.

Definition new (v1 : quota) : option params :=
  bind (quota_is_unlimited v1) (fun v2 =>
  if negb v2 then
    bind (count v1) (fun v7 =>
    let v6 := wrap u128 v7 in
    bind (period_nanos v1) (fun v9 =>
    let v8 := wrap u128 v9 in
    let v5 := (v6, v8) in
    let v3 := (fst v5) in
    let v4 := (snd v5) in
    bind (div_ceil u128 v4 v3) (fun v10 =>
    let v12 := checked u128 (v10 * v3) in
    if negb (snd v12) then
    let v11 := (fst v12) in
    let v18 := checked u128 (2 * v4) in
    if negb (snd v18) then
    let v17 := (fst v18) in
    let v16 := (v11 <? v17) in
    if negb v16 then
      let v24 := (v4 =? 0) in
      if negb v24 then
      let v23 := v3 mod v4 in
      if v23 =? 0 then
        bind NONE (fun c_NONE =>
        let v22 := c_NONE in
        let v25 := v22 in
        let v29 := (v4 =? 0) in
        if negb v29 then
        let v28 := v3 / v4 in
        let v27 := wrap u64 v28 in
        bind DENSE (fun c_DENSE =>
        let v26 := Z.lor c_DENSE v27 in
        let v15 := (v25, v26) in
        let v13 := (fst v15) in
        let v14 := (snd v15) in
        let v30 := wrap u64 v10 in
        let v32 := wrap u64 v10 in
        bind (max_burst v1) (fun v33 =>
        let v34 := checked u64 (v32 * v33) in
        if negb (snd v34) then
        let v31 := (fst v34) in
        let v37 := checked u128 (v11 - v4) in
        if negb (snd v37) then
        let v36 := (fst v37) in
        bind (fraction v36 v11) (fun v35 =>
        bind UNLIMITED (fun c_UNLIMITED =>
        let v38 := c_UNLIMITED in
        let v0 := Build_params v30 v31 v13 v14 (params_start v38) v35 (params_stride v38) in
        Some v0
        )
        )
        else None
        else None
        )
        )
        else None
        )
      else
        bind (fraction v23 v4) (fun v22 =>
        let v25 := v22 in
        let v29 := (v4 =? 0) in
        if negb v29 then
        let v28 := v3 / v4 in
        let v27 := wrap u64 v28 in
        bind DENSE (fun c_DENSE =>
        let v26 := Z.lor c_DENSE v27 in
        let v15 := (v25, v26) in
        let v13 := (fst v15) in
        let v14 := (snd v15) in
        let v30 := wrap u64 v10 in
        let v32 := wrap u64 v10 in
        bind (max_burst v1) (fun v33 =>
        let v34 := checked u64 (v32 * v33) in
        if negb (snd v34) then
        let v31 := (fst v34) in
        let v37 := checked u128 (v11 - v4) in
        if negb (snd v37) then
        let v36 := (fst v37) in
        bind (fraction v36 v11) (fun v35 =>
        bind UNLIMITED (fun c_UNLIMITED =>
        let v38 := c_UNLIMITED in
        let v0 := Build_params v30 v31 v13 v14 (params_start v38) v35 (params_stride v38) in
        Some v0
        )
        )
        else None
        else None
        )
        )
        else None
        )
      else None
    else
      let v21 := checked u128 (v11 - v4) in
      if negb (snd v21) then
      let v20 := (fst v21) in
      bind (fraction v20 v4) (fun v19 =>
      let v15 := (v19, 0) in
      let v13 := (fst v15) in
      let v14 := (snd v15) in
      let v30 := wrap u64 v10 in
      let v32 := wrap u64 v10 in
      bind (max_burst v1) (fun v33 =>
      let v34 := checked u64 (v32 * v33) in
      if negb (snd v34) then
      let v31 := (fst v34) in
      let v37 := checked u128 (v11 - v4) in
      if negb (snd v37) then
      let v36 := (fst v37) in
      bind (fraction v36 v11) (fun v35 =>
      bind UNLIMITED (fun c_UNLIMITED =>
      let v38 := c_UNLIMITED in
      let v0 := Build_params v30 v31 v13 v14 (params_start v38) v35 (params_stride v38) in
      Some v0
      )
      )
      else None
      else None
      )
      )
      else None
    else None
    else None
    )
    )
    )
  else
    bind UNLIMITED (fun c_UNLIMITED =>
    let v0 := c_UNLIMITED in
    Some v0
    )
  ).

Definition stepped (v1 : Z) (v2 : Z) (v3 : Z) : option params :=
  if v2 =? 1 then
    let v7 := (0, 0) in
    let v6 := (v7, 0) in
    let v4 := (fst v6) in
    let v5 := (snd v6) in
    let v12 := wrap u128 v1 in
    let v13 := checked u128 (v12 - 1) in
    if negb (snd v13) then
    let v11 := (fst v13) in
    let v14 := wrap u128 v1 in
    bind (fraction v11 v14) (fun v10 =>
    bind UNLIMITED (fun c_UNLIMITED =>
    let v15 := c_UNLIMITED in
    let v0 := Build_params 1 v3 v4 v5 (params_start v15) v10 v2 in
    Some v0
    )
    )
    else None
  else
    let v9 := wrap u128 v2 in
    bind (fraction 1 v9) (fun v8 =>
    let v6 := (v8, v1) in
    let v4 := (fst v6) in
    let v5 := (snd v6) in
    let v12 := wrap u128 v1 in
    let v13 := checked u128 (v12 - 1) in
    if negb (snd v13) then
    let v11 := (fst v13) in
    let v14 := wrap u128 v1 in
    bind (fraction v11 v14) (fun v10 =>
    bind UNLIMITED (fun c_UNLIMITED =>
    let v15 := c_UNLIMITED in
    let v0 := Build_params 1 v3 v4 v5 (params_start v15) v10 v2 in
    Some v0
    )
    )
    else None
    ).

Definition EARLIEST_START : option Z :=
  let v0 := (-4611686018427387904) in
  Some v0.

Definition starting (v1 : params) (v2 : Z) : option params :=
  let v5 := v1 in
  bind (is_stepped v5) (fun v4 =>
  if negb v4 then
    let v3 := 0 in
    let v1 := Build_params (params_emission_interval v1) (params_burst_tolerance v1) (params_surplus v1) (params_step v1) (v3) (params_lack v1) (params_stride v1) in
    let v0 := v1 in
    Some v0
  else
    bind LAST_TICK (fun c_LAST_TICK =>
    let v7 := wrap i64 c_LAST_TICK in
    let v6 := (v7 <? v2) in
    if negb v6 then
      bind EARLIEST_START (fun c_EARLIEST_START =>
      let v8 := (v2 <? c_EARLIEST_START) in
      if negb v8 then
        let v3 := v2 in
        let v1 := Build_params (params_emission_interval v1) (params_burst_tolerance v1) (params_surplus v1) (params_step v1) (v3) (params_lack v1) (params_stride v1) in
        let v0 := v1 in
        Some v0
      else
        bind EARLIEST_START (fun c_EARLIEST_START =>
        let v3 := c_EARLIEST_START in
        let v1 := Build_params (params_emission_interval v1) (params_burst_tolerance v1) (params_surplus v1) (params_step v1) (v3) (params_lack v1) (params_stride v1) in
        let v0 := v1 in
        Some v0
        )
      )
    else
      bind LAST_TICK (fun c_LAST_TICK =>
      let v3 := wrap i64 c_LAST_TICK in
      let v1 := Build_params (params_emission_interval v1) (params_burst_tolerance v1) (params_surplus v1) (params_step v1) (v3) (params_lack v1) (params_stride v1) in
      let v0 := v1 in
      Some v0
      )
    )
  ).

Definition units_unless_dense (v1 : params) (v2 : Z) : option Z :=
  bind (clamped v2) (fun v3 =>
  bind (is_even v1) (fun v4 =>
  if negb v4 then
    let v6 := (params_step v1) in
    let v5 := (v6 =? 0) in
    if negb v5 then
      let v11 := wrap i64 v3 in
      let v12 := (params_start v1) in
      let v13 := checked i64 (v11 - v12) in
      if negb (snd v13) then
      let v10 := (fst v13) in
      let v16 := (v10 <? 0) in
      if negb v16 then
        let v15 := wrap u64 v10 in
        let v17 := (params_surplus v1) in
        bind (part v15 v17) (fun v14 =>
        let v18 := (params_step v1) in
        bind (wrapping_mul u64 v14 v18) (fun v0 =>
        Some v0
        )
        )
      else
        let v15 := 0 in
        let v17 := (params_surplus v1) in
        bind (part v15 v17) (fun v14 =>
        let v18 := (params_step v1) in
        bind (wrapping_mul u64 v14 v18) (fun v0 =>
        Some v0
        )
        )
      else None
    else
      let v8 := (params_surplus v1) in
      bind (part v3 v8) (fun v7 =>
      let v9 := checked u64 (v3 + v7) in
      if negb (snd v9) then
      let v0 := (fst v9) in
      Some v0
      else None
      )
  else
    let v0 := v3 in
    Some v0
  )
  ).

Definition LARGEST_BURST : option Z :=
  let v1 := wrap u32 56 in
  let v2 := (v1 <? 64) in
  if v2 then
  let v0 := shl u64 1 56 in
  Some v0
  else None.

Definition MAX_TAT : option Z :=
  let v2 := wrap u32 60 in
  let v3 := (v2 <? 64) in
  if v3 then
  let v1 := shl u64 1 60 in
  let v4 := checked u64 (v1 - 1) in
  if negb (snd v4) then
  let v0 := (fst v4) in
  Some v0
  else None
  else None.

Definition LAST_UNIT : option Z :=
  bind LARGEST_BURST (fun c_LARGEST_BURST =>
  bind MAX_TAT (fun c_MAX_TAT =>
  let v1 := checked u64 (c_MAX_TAT - c_LARGEST_BURST) in
  if negb (snd v1) then
  let v0 := (fst v1) in
  Some v0
  else None
  )).

Definition dense_units_at (v1 : params) (v2 : Z) : option Z :=
  let v6 := (params_step v1) in
  bind DENSE (fun c_DENSE =>
  let v7 := greatest u64 - c_DENSE in
  let v5 := Z.land v6 v7 in
  let v8 := checked u64 (v2 * v5) in
  if negb (snd v8) then
  let v4 := (fst v8) in
  let v10 := (params_surplus v1) in
  bind (part v2 v10) (fun v9 =>
  let v11 := checked u64 (v4 + v9) in
  if negb (snd v11) then
  let v3 := (fst v11) in
  bind LAST_UNIT (fun c_LAST_UNIT =>
  let v12 := (c_LAST_UNIT <? v3) in
  if negb v12 then
    let v0 := v3 in
    Some v0
  else
    bind LAST_UNIT (fun c_LAST_UNIT =>
    let v0 := c_LAST_UNIT in
    Some v0
    )
  )
  else None
  )
  else None
  ).

Definition units_at (v1 : params) (v2 : Z) : option Z :=
  bind (is_even v1) (fun v3 =>
  if negb v3 then
    bind (is_dense v1) (fun v4 =>
    if negb v4 then
      bind (units_unless_dense v1 v2) (fun v0 =>
      Some v0
      )
    else
      bind (clamped v2) (fun v5 =>
      bind (dense_units_at v1 v5) (fun v0 =>
      Some v0
      )
      )
    )
  else
    bind (units_unless_dense v1 v2) (fun v0 =>
    Some v0
    )
  ).

Definition units_after (v1 : params) (v2 : Z) : option Z :=
  let v6 := 0 in
  let v7 := (v6 <? 2) in
  if v7 then
  let v5 := (element (params_surplus v1) v6) in
  bind NONE (fun c_NONE =>
  let v9 := c_NONE in
  let v10 := 0 in
  let v11 := (v10 <? 2) in
  if v11 then
  let v8 := (element v9 v10) in
  let v4 := (v5 =? v8) in
  if negb v4 then
    let v3 := false in
    bind (units_at v1 v2) (fun v19 =>
    bind (is_stepped v1) (fun v21 =>
    if negb v21 then
      let v22 := v3 in
      if negb v22 then
        bind LAST_UNIT (fun c_LAST_UNIT =>
        let v20 := (v19 <? c_LAST_UNIT) in
        let v24 := v20 in
        if negb v24 then
          let v23 := false in
          let v28 := v23 in
          let v27 := (if v28 then 1 else 0) in
          let v29 := checked u64 (v19 + v27) in
          if negb (snd v29) then
          let v0 := (fst v29) in
          Some v0
          else None
        else
          bind (clamped v2) (fun v25 =>
          let v26 := (params_surplus v1) in
          bind (leaves_a_rest v25 v26) (fun v23 =>
          let v28 := v23 in
          let v27 := (if v28 then 1 else 0) in
          let v29 := checked u64 (v19 + v27) in
          if negb (snd v29) then
          let v0 := (fst v29) in
          Some v0
          else None
          )
          )
        )
      else
        let v20 := false in
        let v24 := v20 in
        if negb v24 then
          let v23 := false in
          let v28 := v23 in
          let v27 := (if v28 then 1 else 0) in
          let v29 := checked u64 (v19 + v27) in
          if negb (snd v29) then
          let v0 := (fst v29) in
          Some v0
          else None
        else
          bind (clamped v2) (fun v25 =>
          let v26 := (params_surplus v1) in
          bind (leaves_a_rest v25 v26) (fun v23 =>
          let v28 := v23 in
          let v27 := (if v28 then 1 else 0) in
          let v29 := checked u64 (v19 + v27) in
          if negb (snd v29) then
          let v0 := (fst v29) in
          Some v0
          else None
          )
          )
    else
      let v20 := false in
      let v24 := v20 in
      if negb v24 then
        let v23 := false in
        let v28 := v23 in
        let v27 := (if v28 then 1 else 0) in
        let v29 := checked u64 (v19 + v27) in
        if negb (snd v29) then
        let v0 := (fst v29) in
        Some v0
        else None
      else
        bind (clamped v2) (fun v25 =>
        let v26 := (params_surplus v1) in
        bind (leaves_a_rest v25 v26) (fun v23 =>
        let v28 := v23 in
        let v27 := (if v28 then 1 else 0) in
        let v29 := checked u64 (v19 + v27) in
        if negb (snd v29) then
        let v0 := (fst v29) in
        Some v0
        else None
        )
        )
    )
    )
  else
    let v13 := 1 in
    let v14 := (v13 <? 2) in
    if v14 then
    let v12 := (element (params_surplus v1) v13) in
    bind NONE (fun c_NONE =>
    let v16 := c_NONE in
    let v17 := 1 in
    let v18 := (v17 <? 2) in
    if v18 then
    let v15 := (element v16 v17) in
    let v3 := (v12 =? v15) in
    bind (units_at v1 v2) (fun v19 =>
    bind (is_stepped v1) (fun v21 =>
    if negb v21 then
      let v22 := v3 in
      if negb v22 then
        bind LAST_UNIT (fun c_LAST_UNIT =>
        let v20 := (v19 <? c_LAST_UNIT) in
        let v24 := v20 in
        if negb v24 then
          let v23 := false in
          let v28 := v23 in
          let v27 := (if v28 then 1 else 0) in
          let v29 := checked u64 (v19 + v27) in
          if negb (snd v29) then
          let v0 := (fst v29) in
          Some v0
          else None
        else
          bind (clamped v2) (fun v25 =>
          let v26 := (params_surplus v1) in
          bind (leaves_a_rest v25 v26) (fun v23 =>
          let v28 := v23 in
          let v27 := (if v28 then 1 else 0) in
          let v29 := checked u64 (v19 + v27) in
          if negb (snd v29) then
          let v0 := (fst v29) in
          Some v0
          else None
          )
          )
        )
      else
        let v20 := false in
        let v24 := v20 in
        if negb v24 then
          let v23 := false in
          let v28 := v23 in
          let v27 := (if v28 then 1 else 0) in
          let v29 := checked u64 (v19 + v27) in
          if negb (snd v29) then
          let v0 := (fst v29) in
          Some v0
          else None
        else
          bind (clamped v2) (fun v25 =>
          let v26 := (params_surplus v1) in
          bind (leaves_a_rest v25 v26) (fun v23 =>
          let v28 := v23 in
          let v27 := (if v28 then 1 else 0) in
          let v29 := checked u64 (v19 + v27) in
          if negb (snd v29) then
          let v0 := (fst v29) in
          Some v0
          else None
          )
          )
    else
      let v20 := false in
      let v24 := v20 in
      if negb v24 then
        let v23 := false in
        let v28 := v23 in
        let v27 := (if v28 then 1 else 0) in
        let v29 := checked u64 (v19 + v27) in
        if negb (snd v29) then
        let v0 := (fst v29) in
        Some v0
        else None
      else
        bind (clamped v2) (fun v25 =>
        let v26 := (params_surplus v1) in
        bind (leaves_a_rest v25 v26) (fun v23 =>
        let v28 := v23 in
        let v27 := (if v28 then 1 else 0) in
        let v29 := checked u64 (v19 + v27) in
        if negb (snd v29) then
        let v0 := (fst v29) in
        Some v0
        else None
        )
        )
    )
    )
    else None
    )
    else None
  else None
  )
  else None.

Definition units_of (v1 : params) (v2 : Z) : option Z :=
  let v3 := (params_emission_interval v1) in
  bind (saturating_mul u64 v3 v2) (fun v0 =>
  Some v0
  ).

Definition tokens (v1 : params) (v2 : Z) : option Z :=
  let v4 := (params_emission_interval v1) in
  bind (checked_div u64 v2 v4) (fun v3 =>
  let v5 := (if is_some v3 then 1 else 0) in
  if v5 =? 0 then
    let v0 := (greatest u64) in
    Some v0
  else
  if v5 =? 1 then
    let v6 := (content v3) in
    let v0 := v6 in
    Some v0
  else
    None
  ).

Definition backlog (v1 : params) (v2 : Z) : option Z :=
  bind (is_unlimited v1) (fun v3 =>
  if negb v3 then
    let v4 := (params_emission_interval v1) in
    bind (div_ceil u64 v2 v4) (fun v0 =>
    Some v0
    )
  else
    let v0 := 0 in
    Some v0
  ).

Definition burst (v1 : params) : option Z :=
  let v2 := (params_burst_tolerance v1) in
  bind (tokens v1 v2) (fun v0 =>
  Some v0
  ).

Definition tick_at_or_before_last (v1 : params) (v2 : Z) : option Z :=
  let v6 := (params_lack v1) in
  bind (part v2 v6) (fun v5 =>
  let v7 := checked u64 (v2 - v5) in
  if negb (snd v7) then
  let v4 := (fst v7) in
  let v8 := (params_stride v1) in
  bind (saturating_mul u64 v4 v8) (fun v3 =>
  let v10 := (params_start v1) in
  bind (saturating_add_signed u64 v3 v10) (fun v9 =>
  bind (tick_or_never v9) (fun v0 =>
  Some v0
  )
  )
  )
  else None
  ).

Definition tick_at (v1 : params) (v2 : Z) : option Z :=
  if v2 =? 0 then
    bind (tick_from_nanos 0) (fun v0 =>
    Some v0
    )
  else
    let v3 := (1 <=? v2) in
    if negb v3 then
      bind (tick_from_nanos (greatest u64)) (fun v0 =>
      Some v0
      )
    else
      let v4 := (v2 <=? 1080863910568919039) in
      if negb v4 then
        bind (tick_from_nanos (greatest u64)) (fun v0 =>
        Some v0
        )
      else
        bind (tick_at_or_before_last v1 v2) (fun v0 =>
        Some v0
        ).

Definition step_begun (v1 : params) (v2 : Z) : option Z :=
  bind (units_at v1 v2) (fun v4 =>
  let v5 := (params_step v1) in
  bind (checked_div u64 v4 v5) (fun v3 =>
  let v6 := (if is_some v3 then 1 else 0) in
  if v6 =? 0 then
    let v0 := 0 in
    Some v0
  else
  if v6 =? 1 then
    let v7 := (content v3) in
    let v8 := (params_start v1) in
    let v11 := (params_stride v1) in
    let v12 := checked u64 (v7 * v11) in
    if negb (snd v12) then
    let v10 := (fst v12) in
    let v9 := wrap i64 v10 in
    let v13 := checked i64 (v8 + v9) in
    if negb (snd v13) then
    let v0 := (fst v13) in
    Some v0
    else None
    else None
  else
    None
  )
  ).

Definition start_after_change (v1 : params) (v2 : bool) (v3 : Z) : option Z :=
  if negb v2 then
    bind (is_stepped v1) (fun v4 =>
    if negb v4 then
      bind (clamped v3) (fun v5 =>
      let v0 := wrap i64 v5 in
      Some v0
      )
    else
      bind (step_begun v1 v3) (fun v0 =>
      Some v0
      )
    )
  else
    let v0 := (params_start v1) in
    Some v0.

Definition tat_from_units (v1 : Z) : option Z :=
  bind MAX_TAT (fun c_MAX_TAT =>
  let v3 := (c_MAX_TAT <? v1) in
  if negb v3 then
    let v2 := v1 in
    let v0 := v2 in
    Some v0
  else
    bind MAX_TAT (fun c_MAX_TAT =>
    let v2 := c_MAX_TAT in
    let v0 := v2 in
    Some v0
    )
  ).

Definition tat_end (v1 : Z) : option Z :=
  let v0 := v1 in
  Some v0.

Definition tat_backlog_at (v1 : Z) (v2 : Z) : option Z :=
  let v3 := v1 in
  bind (saturating_sub u64 v3 v2) (fun v0 =>
  Some v0
  ).

Definition tat_take (v1 : Z) (v2 : params) (v3 : Z) (v4 : Z) : option (Z + Z) :=
  let v7 := v1 in
  let v6 := (v3 <? v7) in
  if negb v6 then
    let v5 := v3 in
    let v12 := v5 in
    bind (wrapping_add u64 v12 v4) (fun v11 =>
    let v14 := (params_burst_tolerance v2) in
    bind (wrapping_add u64 v3 v14) (fun v13 =>
    let v10 := (v11, v13) in
    let v8 := (fst v10) in
    let v9 := (snd v10) in
    let v15 := (v8 <=? v9) in
    if negb v15 then
      let v18 := (params_burst_tolerance v2) in
      bind (wrapping_sub u64 v8 v18) (fun v17 =>
      let v0 := inr v17 in
      Some v0
      )
    else
      let v16 := v8 in
      let v0 := inl v16 in
      Some v0
    )
    )
  else
    let v5 := v1 in
    let v12 := v5 in
    bind (wrapping_add u64 v12 v4) (fun v11 =>
    let v14 := (params_burst_tolerance v2) in
    bind (wrapping_add u64 v3 v14) (fun v13 =>
    let v10 := (v11, v13) in
    let v8 := (fst v10) in
    let v9 := (snd v10) in
    let v15 := (v8 <=? v9) in
    if negb v15 then
      let v18 := (params_burst_tolerance v2) in
      bind (wrapping_sub u64 v8 v18) (fun v17 =>
      let v0 := inr v17 in
      Some v0
      )
    else
      let v16 := v8 in
      let v0 := inl v16 in
      Some v0
    )
    ).

Definition tat_give (v1 : Z) (v2 : Z) : option Z :=
  let v4 := v1 in
  bind (saturating_sub u64 v4 v2) (fun v3 =>
  let v0 := v3 in
  Some v0
  ).

Definition tat_due (v1 : Z) (v2 : params) (v3 : Z) (v4 : Z) : option Z :=
  let v6 := v1 in
  bind (saturating_add u64 v6 v3) (fun v5 =>
  bind (units_of v2 v4) (fun v7 =>
  let v9 := (params_burst_tolerance v2) in
  bind (saturating_sub u64 v9 v7) (fun v8 =>
  bind (saturating_sub u64 v5 v8) (fun v10 =>
  bind (tick_at v2 v10) (fun v0 =>
  Some v0
  )
  )
  )
  )
  ).

Definition tat_grant_start (v1 : Z) (v2 : params) (v3 : Z) : option Z :=
  bind (units_at v2 v3) (fun v4 =>
  bind (tick_as_nanos v3) (fun v7 =>
  bind (saturating_sub u64 v7 1) (fun v6 =>
  bind (tick_from_nanos v6) (fun v5 =>
  bind (units_at v2 v5) (fun v10 =>
  let v11 := v1 in
  let v9 := (v10 <? v11) in
  if negb v9 then
    let v8 := false in
    let v13 := v8 in
    if negb v13 then
      let v0 := v4 in
      Some v0
    else
      bind (is_stepped v2) (fun v14 =>
      if negb v14 then
        let v0 := v1 in
        Some v0
      else
        let v0 := v4 in
        Some v0
      )
  else
    let v12 := v1 in
    let v8 := (v12 <? v4) in
    let v13 := v8 in
    if negb v13 then
      let v0 := v4 in
      Some v0
    else
      bind (is_stepped v2) (fun v14 =>
      if negb v14 then
        let v0 := v1 in
        Some v0
      else
        let v0 := v4 in
        Some v0
      )
  )
  )
  )
  )
  ).

Definition tat_charge (v1 : Z) (v2 : params) (v3 : Z) (v4 : Z) : option (Z * Z) :=
  let v6 := (0 <? v4) in
  if negb v6 then
    let v5 := v1 in
    let v11 := v5 in
    bind MAX_TAT (fun c_MAX_TAT =>
    bind (saturating_sub u64 c_MAX_TAT v11) (fun v10 =>
    bind (tokens v2 v10) (fun v9 =>
    let v13 := (v4 <? v9) in
    if negb v13 then
      let v12 := v9 in
      let v16 := v5 in
      let v18 := v12 in
      bind (units_of v2 v18) (fun v17 =>
      let v19 := checked u64 (v16 + v17) in
      if negb (snd v19) then
      let v15 := (fst v19) in
      bind (tat_from_units v15) (fun v14 =>
      let v20 := v12 in
      let v0 := (v14, v20) in
      Some v0
      )
      else None
      )
    else
      let v12 := v4 in
      let v16 := v5 in
      let v18 := v12 in
      bind (units_of v2 v18) (fun v17 =>
      let v19 := checked u64 (v16 + v17) in
      if negb (snd v19) then
      let v15 := (fst v19) in
      bind (tat_from_units v15) (fun v14 =>
      let v20 := v12 in
      let v0 := (v14, v20) in
      Some v0
      )
      else None
      )
    )
    ))
  else
    let v8 := v1 in
    let v7 := (v8 <? v3) in
    if negb v7 then
      let v5 := v1 in
      let v11 := v5 in
      bind MAX_TAT (fun c_MAX_TAT =>
      bind (saturating_sub u64 c_MAX_TAT v11) (fun v10 =>
      bind (tokens v2 v10) (fun v9 =>
      let v13 := (v4 <? v9) in
      if negb v13 then
        let v12 := v9 in
        let v16 := v5 in
        let v18 := v12 in
        bind (units_of v2 v18) (fun v17 =>
        let v19 := checked u64 (v16 + v17) in
        if negb (snd v19) then
        let v15 := (fst v19) in
        bind (tat_from_units v15) (fun v14 =>
        let v20 := v12 in
        let v0 := (v14, v20) in
        Some v0
        )
        else None
        )
      else
        let v12 := v4 in
        let v16 := v5 in
        let v18 := v12 in
        bind (units_of v2 v18) (fun v17 =>
        let v19 := checked u64 (v16 + v17) in
        if negb (snd v19) then
        let v15 := (fst v19) in
        bind (tat_from_units v15) (fun v14 =>
        let v20 := v12 in
        let v0 := (v14, v20) in
        Some v0
        )
        else None
        )
      )
      ))
    else
      let v5 := v3 in
      let v11 := v5 in
      bind MAX_TAT (fun c_MAX_TAT =>
      bind (saturating_sub u64 c_MAX_TAT v11) (fun v10 =>
      bind (tokens v2 v10) (fun v9 =>
      let v13 := (v4 <? v9) in
      if negb v13 then
        let v12 := v9 in
        let v16 := v5 in
        let v18 := v12 in
        bind (units_of v2 v18) (fun v17 =>
        let v19 := checked u64 (v16 + v17) in
        if negb (snd v19) then
        let v15 := (fst v19) in
        bind (tat_from_units v15) (fun v14 =>
        let v20 := v12 in
        let v0 := (v14, v20) in
        Some v0
        )
        else None
        )
      else
        let v12 := v4 in
        let v16 := v5 in
        let v18 := v12 in
        bind (units_of v2 v18) (fun v17 =>
        let v19 := checked u64 (v16 + v17) in
        if negb (snd v19) then
        let v15 := (fst v19) in
        bind (tat_from_units v15) (fun v14 =>
        let v20 := v12 in
        let v0 := (v14, v20) in
        Some v0
        )
        else None
        )
      )
      )).

Definition saturated (v1 : Z) : option Z :=
  let v3 := wrap u128 (greatest u64) in
  let v2 := (v3 <? v1) in
  if negb v2 then
    let v0 := wrap u64 v1 in
    Some v0
  else
    let v0 := (greatest u64) in
    Some v0.

Definition scaled (v1 : Z) (v2 : Z) (v3 : (Z * Z)) (v4 : (Z * Z)) : option Z :=
  let v8 := v1 in
  if v8 =? 0 then
    let v7 := v3 in
    let v5 := (element v7 0) in
    let v6 := (element v7 1) in
    let v11 := wrap u128 v2 in
    let v12 := wrap u128 v6 in
    let v13 := checked u128 (v11 * v12) in
    if negb (snd v13) then
    let v10 := (fst v13) in
    let v14 := wrap u128 v5 in
    bind (div_ceil u128 v10 v14) (fun v9 =>
    bind (saturated v9) (fun v0 =>
    Some v0
    )
    )
    else None
  else
  if v8 =? 1 then
    let v7 := v4 in
    let v5 := (element v7 0) in
    let v6 := (element v7 1) in
    let v11 := wrap u128 v2 in
    let v12 := wrap u128 v6 in
    let v13 := checked u128 (v11 * v12) in
    if negb (snd v13) then
    let v10 := (fst v13) in
    let v14 := wrap u128 v5 in
    bind (div_ceil u128 v10 v14) (fun v9 =>
    bind (saturated v9) (fun v0 =>
    Some v0
    )
    )
    else None
  else
    None.

Definition carried (v1 : Z) (v2 : Z) (v3 : params) (v4 : params) : option Z :=
  bind (is_unlimited v3) (fun v5 =>
  if negb v5 then
    bind (is_unlimited v4) (fun v6 =>
    if negb v6 then
      let v8 := (params_burst_tolerance v3) in
      let v9 := (params_burst_tolerance v4) in
      let v7 := (v8, v9) in
      let v11 := (params_emission_interval v3) in
      let v12 := (params_emission_interval v4) in
      let v10 := (v11, v12) in
      bind (scaled v1 v2 v7 v10) (fun v0 =>
      Some v0
      )
    else
      let v0 := 0 in
      Some v0
    )
  else
    let v0 := 0 in
    Some v0
  ).

Definition tat_carry (v1 : Z) (v2 : Z) (v3 : params) (v4 : params) (v5 : Z) : option Z :=
  bind (is_unlimited v3) (fun v6 =>
  if negb v6 then
    bind (is_unlimited v4) (fun v7 =>
    if negb v7 then
      bind (units_at v3 v5) (fun v9 =>
      bind (tat_backlog_at v1 v9) (fun v11 =>
      bind (carried v2 v11 v3 v4) (fun v10 =>
      let v15 := v1 in
      bind (saturating_sub u64 v9 v15) (fun v14 =>
      let v13 := wrap u128 v14 in
      let v17 := (params_emission_interval v4) in
      let v16 := wrap u128 v17 in
      let v18 := checked u128 (v13 * v16) in
      if negb (snd v18) then
      let v12 := (fst v18) in
      let v22 := (params_emission_interval v3) in
      let v21 := wrap u128 v22 in
      let v23 := (v21 =? 0) in
      if negb v23 then
      let v20 := v12 / v21 in
      bind (saturated v20) (fun v19 =>
      bind (units_after v4 v5) (fun v25 =>
      bind (saturating_add u64 v25 v10) (fun v24 =>
      bind (saturating_sub u64 v24 v19) (fun v26 =>
      bind (tat_from_units v26) (fun v0 =>
      Some v0
      )
      )
      )
      )
      )
      else None
      else None
      )
      )
      )
      )
    else
      bind (units_at v4 v5) (fun v8 =>
      bind (tat_from_units v8) (fun v0 =>
      Some v0
      )
      )
    )
  else
    bind (units_at v4 v5) (fun v8 =>
    bind (tat_from_units v8) (fun v0 =>
    Some v0
    )
    )
  ).

Definition newer (v1 : Z) (v2 : Z) (v3 : Z) : option Z :=
  bind (saturating_sub u64 v1 v2) (fun v4 =>
  bind (saturating_sub u64 v4 v3) (fun v0 =>
  Some v0
  )
  ).

Definition refundable (v1 : Z) (v2 : Z) (v3 : Z) : option Z :=
  bind (saturating_sub u64 v2 v3) (fun v4 =>
  let v5 := (v1 <? v4) in
  if negb v5 then
    let v0 := v4 in
    Some v0
  else
    let v0 := v1 in
    Some v0
  ).

Definition LONGEST : option Z :=
  let v1 := wrap u32 58 in
  let v2 := (v1 <? 64) in
  if v2 then
  let v0 := shl u64 1 58 in
  Some v0
  else None.

Definition share (v1 : quota) (v2 : Z) : option quota :=
  let v7 := (quota_count v1) in
  let v6 := wrap u128 v7 in
  let v10 := (quota_period v1) in
  let v9 := wrap u128 v10 in
  let v11 := wrap u128 v2 in
  let v12 := checked u128 (v9 * v11) in
  if negb (snd v12) then
  let v8 := (fst v12) in
  let v5 := (v6, v8) in
  let v3 := (fst v5) in
  let v4 := (snd v5) in
  let v14 := v4 in
  let v15 := wrap u128 (greatest u64) in
  let v13 := (v15 <? v14) in
  if negb v13 then
    bind LONGEST (fun c_LONGEST =>
    let v30 := wrap u128 c_LONGEST in
    let v31 := v3 in
    let v32 := checked u128 (v30 * v31) in
    if negb (snd v32) then
    let v29 := (fst v32) in
    let v33 := v4 in
    let v34 := (v33 =? 0) in
    if negb v34 then
    let v28 := v29 / v33 in
    let v37 := (quota_burst v1) in
    let v38 := wrap u64 v2 in
    let v39 := (v38 =? 0) in
    if negb v39 then
    let v36 := v37 / v38 in
    let v35 := wrap u128 v36 in
    let v41 := (v35 <? v28) in
    if negb v41 then
      let v40 := v28 in
      let v43 := v3 in
      let v42 := wrap u64 v43 in
      let v45 := v4 in
      let v44 := wrap u64 v45 in
      let v48 := v40 in
      let v47 := (v48 =? 0) in
      if negb v47 then
        let v49 := v40 in
        let v46 := wrap u64 v49 in
        let v0 := Build_quota v42 v44 v46 in
        Some v0
      else
        let v46 := 1 in
        let v0 := Build_quota v42 v44 v46 in
        Some v0
    else
      let v40 := v35 in
      let v43 := v3 in
      let v42 := wrap u64 v43 in
      let v45 := v4 in
      let v44 := wrap u64 v45 in
      let v48 := v40 in
      let v47 := (v48 =? 0) in
      if negb v47 then
        let v49 := v40 in
        let v46 := wrap u64 v49 in
        let v0 := Build_quota v42 v44 v46 in
        Some v0
      else
        let v46 := 1 in
        let v0 := Build_quota v42 v44 v46 in
        Some v0
    else None
    else None
    else None
    )
  else
    let v18 := v3 in
    let v19 := wrap u128 (greatest u64) in
    let v20 := checked u128 (v18 * v19) in
    if negb (snd v20) then
    let v17 := (fst v20) in
    let v21 := v4 in
    let v22 := (v21 =? 0) in
    if negb v22 then
    let v16 := v17 / v21 in
    let v25 := v4 in
    let v26 := checked u128 (v16 * v25) in
    if negb (snd v26) then
    let v24 := (fst v26) in
    let v27 := v3 in
    bind (div_ceil u128 v24 v27) (fun v23 =>
    let v4 := v23 in
    let v3 := v16 in
    bind LONGEST (fun c_LONGEST =>
    let v30 := wrap u128 c_LONGEST in
    let v31 := v3 in
    let v32 := checked u128 (v30 * v31) in
    if negb (snd v32) then
    let v29 := (fst v32) in
    let v33 := v4 in
    let v34 := (v33 =? 0) in
    if negb v34 then
    let v28 := v29 / v33 in
    let v37 := (quota_burst v1) in
    let v38 := wrap u64 v2 in
    let v39 := (v38 =? 0) in
    if negb v39 then
    let v36 := v37 / v38 in
    let v35 := wrap u128 v36 in
    let v41 := (v35 <? v28) in
    if negb v41 then
      let v40 := v28 in
      let v43 := v3 in
      let v42 := wrap u64 v43 in
      let v45 := v4 in
      let v44 := wrap u64 v45 in
      let v48 := v40 in
      let v47 := (v48 =? 0) in
      if negb v47 then
        let v49 := v40 in
        let v46 := wrap u64 v49 in
        let v0 := Build_quota v42 v44 v46 in
        Some v0
      else
        let v46 := 1 in
        let v0 := Build_quota v42 v44 v46 in
        Some v0
    else
      let v40 := v35 in
      let v43 := v3 in
      let v42 := wrap u64 v43 in
      let v45 := v4 in
      let v44 := wrap u64 v45 in
      let v48 := v40 in
      let v47 := (v48 =? 0) in
      if negb v47 then
        let v49 := v40 in
        let v46 := wrap u64 v49 in
        let v0 := Build_quota v42 v44 v46 in
        Some v0
      else
        let v46 := 1 in
        let v0 := Build_quota v42 v44 v46 in
        Some v0
    else None
    else None
    else None
    )
    )
    else None
    else None
    else None
  else None.

Definition end_of_pause (v1 : Z) (v2 : Z) (v3 : Z) : option Z :=
  bind (tick_as_nanos v2) (fun v4 =>
  bind (tick_as_nanos v3) (fun v6 =>
  let v5 := (v6 <? v4) in
  if negb v5 then
    let v0 := v1 in
    Some v0
  else
    bind (tick_as_nanos v1) (fun v8 =>
    let v7 := (v8 <? v4) in
    if negb v7 then
      let v0 := v1 in
      Some v0
    else
      bind (tick_or_never v4) (fun v0 =>
      Some v0
      )
    )
  )
  ).

Definition has_ended (v1 : Z) (v2 : Z) : option bool :=
  bind (tick_as_nanos v1) (fun v3 =>
  bind (tick_as_nanos v2) (fun v4 =>
  let v0 := (v3 <=? v4) in
  Some v0
  )
  ).

Definition not_before (v1 : Z) (v2 : Z) : option Z :=
  bind (tick_as_nanos v1) (fun v4 =>
  bind (tick_as_nanos v2) (fun v5 =>
  let v3 := (v4 <? v5) in
  if negb v3 then
    let v0 := v1 in
    Some v0
  else
    let v0 := v2 in
    Some v0
  )
  ).

Definition granted_at (v1 : Z) (v2 : Z) (v3 : Z) : option Z :=
  bind (not_before v1 v2) (fun v4 =>
  bind (tick_as_nanos v3) (fun v6 =>
  bind (tick_as_nanos v4) (fun v7 =>
  let v5 := (v6 <? v7) in
  if negb v5 then
    let v0 := v4 in
    Some v0
  else
    let v0 := v3 in
    Some v0
  )
  )
  ).
