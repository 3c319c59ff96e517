#!/usr/bin/env python3
"""Breaks the translated functions and the models in Coq in one way at a time, and checks that a proof fails each time.

    proofs/mutants.py [FOLDER]

FOLDER has the files of proofs/coq, and Machine.v compiled. A defect is a change in one function of Code.v, or in one
definition of the file that is checked first; it must still be a program of Coq, so that the failure is one of a proof.
Without a folder, only checks that proofs/coq has the words that each defect replaces, which takes no prover.
"""
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

# What is broken, in which function, the words before and after, and the file that is checked first.
MUTANTS = [
    ('a fraction is rounded down', 'fraction', 'div_ceil u128 v43 v2', 'Some (v43 / v2)', 'Arithmetic'),
    ('a part is twice as large', 'part', 'shr v14 64', 'shr v14 63', 'Arithmetic'),
    ('take refuses what just fits', 'tat_take', 'v8 <=? v9', 'v8 <? v9', 'Gcra'),
    ('take begins at the earlier of the backlog and now', 'tat_take', 'v3 <? v7', 'v7 <? v3', 'Gcra'),
    ('take names a unit that is too early', 'tat_take', 'wrapping_sub u64 v8 v18', 'wrapping_sub u64 v8 (v18 + 1)', 'Gcra'),
    ('a late grant gains a fraction', 'tat_grant_start', 'v10 <? v11', 'v10 <=? v11', 'Gcra'),
    ('a unit too many has passed', 'units_unless_dense', 'v3 + v7', 'v3 + v7 + 1', 'Params'),
    ('dense units end at the wrong side', 'dense_units_at', 'c_LAST_UNIT <? v3', 'v3 <? c_LAST_UNIT', 'Params'),
    ('the first tick is rounded down', 'tick_at_or_before_last', 'v2 - v5', 'v2 - v5 - 1', 'Ticks'),
    ('the way back has another ratio', 'new', 'fraction v36 v11', 'fraction v36 v4', 'Params'),
    ('a batch comes twice in a period', 'stepped', 'fraction 1 v9', 'fraction 2 v9', 'Batches'),
    ('a charge takes all the room', 'tat_charge', 'v4 <? v9', 'v9 <? v4', 'Gcra'),
    ('a rest is taken for none', 'leaves_a_rest', 'negb (v13 =? 0)', '(v13 =? 0)', 'Changes'),
    ('a change rounds the backlog down', 'scaled', 'div_ceil u128 v10 v14', 'Some (v10 / v14)', 'Changes'),
    ('a change gives out a unit that has begun', 'tat_carry', 'units_after v4 v5', 'units_at v4 v5', 'Changes'),
    ('a change forgets the idle time', 'tat_carry', 'saturating_sub u64 v24 v19', 'saturating_sub u64 v24 0', 'Changes'),
    ('a change begins a new step', 'start_after_change', 'step_begun v1 v3', 'clamped v3', 'Steps'),
    ('a step begins a period late', 'step_begun', 'v7 * v11', '(v7 + 1) * v11', 'Steps'),
    ('new steps are counted from the epoch', 'starting', 'v7 <? v2', 'v2 <? v7', 'Steps'),
    ('a refund ignores the newer charges', 'refundable', 'saturating_sub u64 v2 v3', 'saturating_sub u64 v2 0', 'Refunds'),
    ('refunded newer charges count twice', 'newer', 'saturating_sub u64 v4 v3', 'saturating_add u64 v4 v3', 'Refunds'),
    ('a share has the whole burst', 'share', 'v36 := v37 / v38', 'v36 := v37', 'Split'),
    ('the period of a share is rounded down', 'share', 'div_ceil u128 v24 v27', 'Some (v24 / v27)', 'Split'),
    ('a call is due before the end of a pause', 'not_before', 'v4 <? v5', 'v5 <? v4', 'Pauses'),
    ('a waiter is charged before it is due', 'granted_at', 'v6 <? v7', 'v7 <? v6', 'Pauses'),
    ('a shorter pause replaces a longer one', 'end_of_pause', 'v8 <? v4', 'v4 <? v8', 'Pauses'),
    ('a pause ends a nanosecond early', 'has_ended', 'v3 <=? v4', 'v3 - 1 <=? v4', 'Pauses'),
    ('only never comes', 'tick_has_come', 'negb v6', 'v6', 'Pauses'),
    ('a call is decided without the lock in a pause', 'admitted_at', 'paused l = false -> over', 'over', 'Pauses'),
    ('a change rounds the estimate of a window up by more', 'change_of', 'then 0 else fading', 'then fading else fading', 'Window'),
    ('a change of a window forgets a call', 'change_of', 'Z.max 0 (owed -', 'Z.max 0 (owed - 1 -', 'Window'),
    ('the next window forgets the one before', 'event', 'previous := Z.min (counted w) (most_of w)', 'previous := 0', 'Window'),
    ('a slot is free at once', 'since', 'u + period <= t', 'u <= t', 'Log'),
    ('a charge takes the slot of a newer one', 'since', 'without (n - 1) known', 'without (n - 2) known', 'Log'),
    ('a log in proportion rounds down', 'scaled_log', 'used * new + old - 1', 'used * new', 'Log'),
    ('time ends too early', 'LAST_TICK', 'shl u64 1 58', 'shl u64 1 57', 'Params'),
]
FILES = ['Arithmetic', 'Params', 'Gcra', 'Ticks', 'Batches', 'Changes', 'Steps', 'Rule', 'Split', 'Refunds', 'Pauses', 'Log', 'Window']


def broken(code, function, before, after):
    body = re.search(rf'^(?:Definition|Inductive) {function} .*?^(?=Definition |Lemma |\(\*|\Z)', code, re.S | re.M)
    if not body or before not in body[0]:
        return None
    return code[:body.start()] + body[0].replace(before, after) + code[body.end():]


def compiles(folder, name, *how):
    # A proof that finds no end is no proof. The limit is in seconds of a processor, so that a busy machine refutes nothing.
    limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (300, 300))
    return subprocess.run(['coqc', '-q', *how, f'{name}.v'], cwd=folder, capture_output=True, preexec_fn=limit).returncode == 0


def required(source, file):
    """The files whose statements a file needs, in the order in which they need each other."""
    line = re.search(r'^Require Import Machine Code\b.*', (source / f'{file}.v').read_text(), re.M)
    return [other for other in FILES if line and re.search(rf'\b{other}\b', line[0])]


def refuted_by(source, changed, code, first):
    """The file whose proofs fail if a file has this code, if any."""
    with tempfile.TemporaryDirectory() as folder:
        for file in [*source.glob('*.v'), *source.glob('Machine.vo*')]:
            shutil.copy2(file, folder)
        (pathlib.Path(folder) / f'{changed}.v').write_text(code)
        if not compiles(folder, 'Code'):
            sys.exit('this is no program')
        stated = set()
        for file in dict.fromkeys([first, *FILES]):
            # The statements that it needs, without their proofs; then its own proofs by themselves.
            for other in [*required(source, file), file]:
                if other not in stated and not compiles(folder, other, '-vos'):
                    sys.exit('the statements are not understood any more')
                stated.add(other)
            if not compiles(folder, file, '-vok'):
                return file
        return None


def main():
    source = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else 'proofs/coq')
    texts = {file: (source / f'{file}.v').read_text() for file in ['Code', *FILES]}
    defects, is_lost, survived = [], False, 0
    for name, function, before, after, first in MUTANTS:
        changed = 'Code' if re.search(rf'^Definition {function} ', texts['Code'], re.M) else first
        code = broken(texts[changed], function, before, after)
        defects.append((name, changed, code, first))
        if not code:
            is_lost = True
            print(f'proofs/mutants.py: {name!r} replaces {before!r}, which `{function}` of {changed}.v has no more')
    if is_lost:
        sys.exit('a change of a function numbers its variables again: give these defects the words that it has now')
    if len(sys.argv) == 1:
        return
    if refuted_by(source, 'Code', texts['Code'], FILES[0]):
        sys.exit('the proofs fail without a defect')
    for name, changed, code, first in defects:
        print(f'  {name}: ', end='', flush=True)
        fails = refuted_by(source, changed, code, first)
        survived += fails is None
        print(f'refuted by {fails}.v' if fails else 'SURVIVES', flush=True)
    print(f'{survived} of {len(MUTANTS)} survived')
    sys.exit(survived > 0)


main()
