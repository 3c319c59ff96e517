#!/usr/bin/env python3
"""Checks that `scripts/proofs` is not green where a prover cannot be had (4), or the compiler is another one (3).

It runs the script in a folder that has everything else of the repository, with a `scripts/needs` that finds or does not
find a prover, and with another rustc. Without a prover, the functions are still translated, with the compiler that is there.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


def stub(path, line):
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'#!/bin/sh\n{line}\n')
    path.chmod(0o755)


def run(needs, rustc):
    """The exit code and the last line, where `scripts/needs` and `rustc`, if one is given, do this."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for entry in REPOSITORY.iterdir():
            if entry.name not in ('scripts', 'target', '.git'):
                (folder / entry.name).symlink_to(entry)
        stub(folder / 'scripts' / 'proofs', '')
        (folder / 'scripts' / 'proofs').write_text((REPOSITORY / 'scripts' / 'proofs').read_text())
        stub(folder / 'scripts' / 'needs', needs)
        (folder / 'bin').mkdir()
        if rustc:
            stub(folder / 'bin' / 'rustc', rustc)
        environment = {**os.environ, 'PATH': f'{folder / "bin"}:{os.environ["PATH"]}', 'CARGO_TARGET_DIR': str(folder / 'built')}
        done = subprocess.run([folder / 'scripts' / 'proofs'], env=environment, capture_output=True, text=True)
        return done.returncode, (done.stdout.splitlines() or [''])[-1]


def main():
    failed = False
    for name, needs, rustc, wanted, words in [
        ('no Coq', 'test "$1" != coqc', None, 4, 'proofs not run: there is no Coq'),
        ('another compiler', 'true', 'echo "rustc 0.0.0"', 3, 'not comparable'),
    ]:
        code, line = run(needs, rustc)
        right = code == wanted and line.startswith(words)
        failed |= not right
        print(f'{name}: exits with {code}: {line}', '' if right else f'BUT {wanted} IS WANTED')
    sys.exit(failed)


main()
