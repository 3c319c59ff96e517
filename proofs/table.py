#!/usr/bin/env python3
"""Checks that proofs/README.md has a row for each sentence under *What it guarantees* and for each row of the guarantees
page, and no other row; that each row has a label that we know; that the statement which it names exists; and that each
lemma of proofs/coq has a sentence above it.

A sentence's id is its paragraph and its number, such as `exactness-2`, or `beside-1` outside the bullets; a row's id is its section and its name. The
third column has a digest of the words, so whoever changes them looks at the row again. `--write` renews the digests.
`--theorems` prints a file of Coq that asks what each theorem of the table assumes.
"""
import glob
import hashlib
import os
import re
import sys

LABELS = {'theorem', 'model', 'loom', 'type', 'tested', "another's document"}
TABLE = os.path.join(os.path.dirname(__file__), 'README.md')


def slug(text):
    return re.sub(r'[^a-z0-9]+', '-', re.sub(r'[`*]|\]\([^)]*\)|[\[\]]', '', text).lower()).strip('-')


def digest(text):
    return hashlib.sha256(' '.join(text.split()).encode()).hexdigest()[:8]


def promises():
    """The words of each sentence and each row, by id."""
    found = {}
    with open('README.md') as file:
        section = re.search(r'^## What it guarantees\n(.*?)^## ', file.read(), re.S | re.M)[1]
    bullets = re.findall(r'^- \*\*(.+?)\.\*\* (.+?)(?=^- |^$)', section, re.S | re.M)
    for name, text in bullets:
        # These titles are promises themselves.
        if name.startswith('No '):
            found[slug(name)] = name
        for at, sentence in enumerate(re.split(r'(?<=\.)\s+(?=[A-Z])', text.strip()), 1):
            found[f'{slug(name)}-{at}'] = sentence
    outside = re.sub(r'^- \*\*.+?(?=^- |^$|\Z)', '', section, flags=re.S | re.M).strip()
    for at, sentence in enumerate(re.split(r'(?<=\.)\s+(?=[A-Z[])', outside), 1):
        found[f'beside-{at}'] = sentence
    with open('src/guarantees.rs') as file:
        heading, header = '', False
        for line in file:
            line = line.removeprefix('//!').strip()
            if line.startswith('# '):
                heading = slug(line[2:].split(':')[0])
            elif line.startswith('|---'):
                header = False
            elif line.startswith('| '):
                name = line.split('|')[1].strip()
                # The first line of a table names its columns.
                if name:
                    found[f'{heading}/{slug(name)[:48]}'] = line
    if len(bullets) < 5 or len(found) < 60:
        sys.exit('the guarantees are not where they were: nothing is compared')
    return found


def exists(statement):
    """Whether `file: name` is a test, a theorem, an invariant, or an attribute of the file."""
    path, _, name = statement.partition(': ')
    try:
        with open(path) as file:
            text = file.read()
    except OSError:
        return False
    defined = rf'(?:fn |Theorem |Lemma |Definition |Inductive |model!\(){re.escape(name)}\b'
    return bool(name) and bool(re.search(defined, text) or f"'{name}'" in text or f'#![{name}]' in text)


def without_sentence():
    """The lemmas of proofs/coq that no comment precedes."""
    for path in sorted(glob.glob('proofs/coq/*.v')):
        with open(path) as file:
            lines = ['', *file.read().splitlines()]
        for before, line in zip(lines, lines[1:]):
            lemma = re.match(r'(?:Lemma|Theorem) (\w+)', line)
            if lemma and not before.endswith('*)'):
                yield f'{path}: no sentence says what {lemma[1]} shows'


def theorems():
    """A file of Coq that prints the assumptions of all theorems of the table."""
    with open(TABLE) as file:
        named = re.findall(r'`proofs/coq/(\w+)\.v: (\w+)`', file.read())
    print('Require ' + ' '.join(sorted({file for file, _ in named})) + '.')
    for file, name in sorted(set(named)):
        print(f'Print Assumptions {file}.{name}.')


def main():
    with open(TABLE) as file:
        lines = file.read().splitlines()
    wanted, rows, errors = promises(), {}, []
    for at, line in enumerate(lines):
        cells = [cell.strip() for cell in line.split('|')[1:-1]]
        if len(cells) != 6 or cells[0] in ('id', '---') or set(cells[0]) <= set('-'):
            continue
        name, label, words, statements = cells[0].strip('`'), cells[1], cells[2].strip('`'), cells[3]
        if name in rows:
            errors.append(f'{name} has two rows')
        rows[name] = line
        if name not in wanted:
            errors.append(f'{name}: there is no such sentence or row any more')
            continue
        if label not in LABELS:
            errors.append(f'{name}: {label!r} is no label')
        now = digest(wanted[name])
        if words != now:
            if '--write' in sys.argv:
                lines[at] = line.replace(f'`{words}`', f'`{now}`')
            else:
                errors.append(f'{name}: its words have changed; look at its row, then run proofs/table.py --write')
        named = re.findall(r'`([^`]+)`', statements)
        if label != "another's document" and not named:
            errors.append(f'{name}: no statement is named')
        errors += [f'{name}: there is no {it}' for it in named if not exists(it)]
    errors += without_sentence()
    errors += [f'{name} has no row: {text[:60]}' for name, text in wanted.items() if name not in rows]
    if '--write' in sys.argv:
        with open(TABLE, 'w') as file:
            file.write('\n'.join(lines) + '\n')
    if errors:
        sys.exit('\n'.join(errors))
    print(f'{len(rows)} guarantees, each with a label and a statement')


theorems() if '--theorems' in sys.argv else main()
