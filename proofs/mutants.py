#!/usr/bin/env python3
"""Breaks the translated functions in one way at a time, and checks that a proof fails each time.

    proofs/mutants.py FOLDER

FOLDER has the files of proofs/coq, and Machine.v compiled. A defect is a change in one function of Code.v; it must
still be a program of Coq, so that the failure is one of a proof.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# What is broken, in which function, and the words before and after.
MUTANTS = [
    ('a fraction is rounded down', 'fraction', 'div_ceil u128 v43 v2', 'Some (v43 / v2)'),
    ('a part is twice as large', 'part', 'shr v14 64', 'shr v14 63'),
    ('take refuses what just fits', 'tat_take', 'v8 <=? v9', 'v8 <? v9'),
    ('take begins at the earlier of the backlog and now', 'tat_take', 'v3 <? v7', 'v7 <? v3'),
    ('take names a unit that is too early', 'tat_take', 'wrapping_sub u64 v8 v18', 'wrapping_sub u64 v8 (v18 + 1)'),
    ('a late grant gains a fraction', 'tat_grant_start', 'v10 <? v11', 'v10 <=? v11'),
    ('a unit too many has passed', 'units_unless_dense', 'v3 + v7', 'v3 + v7 + 1'),
    ('dense units end at the wrong side', 'dense_units_at', 'c_LAST_UNIT <? v3', 'v3 <? c_LAST_UNIT'),
    ('the first tick is rounded down', 'tick_at_or_before_last', 'v2 - v5', 'v2 - v5 - 1'),
    ('the way back has another ratio', 'new', 'fraction v36 v11', 'fraction v36 v4'),
    ('a batch comes twice in a period', 'stepped', 'fraction 1 v9', 'fraction 2 v9'),
    ('a charge takes all the room', 'tat_charge', 'v4 <? v9', 'v9 <? v4'),
    ('a rest is taken for none', 'leaves_a_rest', 'negb (v13 =? 0)', '(v13 =? 0)'),
    ('a change rounds the backlog down', 'scaled', 'div_ceil u128 v10 v14', 'Some (v10 / v14)'),
    ('a change gives out a unit that has begun', 'tat_carry', 'units_after v4 v5', 'units_at v4 v5'),
    ('a change forgets the idle time', 'tat_carry', 'saturating_sub u64 v24 v19', 'saturating_sub u64 v24 0'),
    ('a refund ignores the newer charges', 'refundable', 'saturating_sub u64 v2 v3', 'saturating_sub u64 v2 0'),
    ('refunded newer charges count twice', 'newer', 'saturating_sub u64 v4 v3', 'saturating_add u64 v4 v3'),
    ('a share has the whole burst', 'share', 'v36 := v37 / v38', 'v36 := v37'),
    ('the period of a share is rounded down', 'share', 'div_ceil u128 v24 v27', 'Some (v24 / v27)'),
    ('time ends too early', 'LAST_TICK', 'shl u64 1 58', 'shl u64 1 57'),
]
FILES = ['Arithmetic', 'Params', 'Gcra', 'Ticks', 'Batches', 'Changes', 'Split', 'Refunds']


def broken(code, function, before, after):
    body = re.search(rf'^Definition {function} .*?^(?=Definition |\Z)', code, re.S | re.M)
    if not body or before not in body[0]:
        sys.exit(f'{function} has no {before!r} any more')
    return code[:body.start()] + body[0].replace(before, after) + code[body.end():]


def compiles(folder, name):
    # A proof that finds no end is no proof.
    try:
        return subprocess.run(['coqc', '-q', f'{name}.v'], cwd=folder, capture_output=True, timeout=300).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def main():
    source, survived = pathlib.Path(sys.argv[1]), 0
    for name, function, before, after in MUTANTS:
        with tempfile.TemporaryDirectory() as folder:
            for file in [*source.glob('*.v'), source / 'Machine.vo']:
                shutil.copy2(file, folder)
            code = pathlib.Path(folder) / 'Code.v'
            code.write_text(broken(code.read_text(), function, before, after))
            if not compiles(folder, 'Code'):
                sys.exit(f'{name}: this is no program')
            fails = next((file for file in FILES if not compiles(folder, file)), None)
            survived += fails is None
            print(f'  {name}:', f'refuted by {fails}.v' if fails else 'SURVIVES', flush=True)
    print(f'{survived} of {len(MUTANTS)} survived')
    sys.exit(survived > 0)


main()
