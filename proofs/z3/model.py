"""What the models of this folder have in common: variables, invariants and steps, and their check by Z3.

An invariant is a list of named conditions. Z3 looks for a state in which all hold, and a step after which one does not. It
finds none, for each pair of a step and a condition. So they hold after any number of steps, from the first state on. Each
step names a function that exists, and is possible. With `--mutants`, each defect of a model must make a pair fail, or lead
by the run that is named from a first state to one in which a promise does not hold; and each condition that is no promise
itself must be needed: without it, a pair fails.
"""
import re
import sys

from z3 import And, Bool, Const, Int, Not, Solver, sat, substitute, unsat
from z3.z3util import get_vars

ANY = object()


class Model:
    """Variables, an invariant, the first states, and steps."""

    # The conditions that are promises; any other is needed by one of them.
    promises = ()
    # For a defect, the promise that it breaks, and the steps from a first state.
    runs = {}

    def __init__(self, ints, bools):
        self.names = ints + bools
        self.now = {name: (Int if name in ints else Bool)(name) for name in self.names}
        self.then = {name: (Int if name in ints else Bool)(name + "'") for name in self.names}

    def step(self, condition, **changes):
        """What is not named stays; ANY may become anything."""
        parts = [condition]
        for name in self.names:
            if name not in changes:
                parts.append(self.then[name] == self.now[name])
            elif changes[name] is not ANY:
                parts.append(self.then[name] == changes[name])
        return And(*parts)

    def of_step(self, name):
        """What has to hold of a step, by its name: of the state before it and of that after it."""
        return {}


def exists(name):
    path, _, function = name.partition(': ')
    with open(path) as file:
        return bool(re.search(rf'fn {function.split(",")[0]}\b', file.read()))


def failures(model, mutant=None, without=None):
    """The pairs of a step and a condition that it may violate."""
    before, after, bad = model.invariant(model.now), model.invariant(model.then), []
    if without:
        del before[without], after[without]
    first = mutant is not None or without is not None
    for name, step in model.steps(mutant).items():
        solver = Solver()
        solver.add(*before.values(), step)
        if not first and solver.check() != sat:
            bad.append((name, 'is never possible'))
        for what, goal in [*after.items(), *model.of_step(name).items()]:
            solver.push()
            solver.add(Not(goal))
            # What is not known to be impossible is a failure.
            if solver.check() != unsat:
                bad.append((name, what))
            solver.pop()
            if bad and first:
                return bad
    return bad


def unrolled(term, number):
    """A term about the state after so many steps, and the one after it."""
    pairs = []
    for it in get_vars(term):
        name = str(it)
        later = number + name.endswith("'")
        pairs.append((it, Const(f"{name.rstrip(chr(39))}@{later}", it.sort())))
    return substitute(term, *pairs)


def breaks(model, mutant, promise, run):
    """Whether a run of a defect, step by step from a first state, ends in a state in which a promise does not hold."""
    steps = {name.split(': ')[1]: step for name, step in model.steps(mutant).items()}
    solver = Solver()
    solver.add(unrolled(model.first(), 0))
    solver.add(*[unrolled(steps[name], number) for number, name in enumerate(run)])
    solver.add(unrolled(Not(model.invariant(model.then)[promise]), len(run) - 1))
    return solver.check() == sat


def shown(bad):
    return f'{bad[0][0].split(": ")[1]} violates "{bad[0][1]}"'


def check(*models):
    mutants_too, failed = '--mutants' in sys.argv, False
    for model in models:
        name, steps, conditions = type(model).__name__, model.steps(), model.invariant(model.now)
        solver = Solver()
        solver.add(model.first(), Not(And(*conditions.values())))
        bad = [] if solver.check() == unsat else [('first', 'the first states')]
        bad += [(step, 'there is no such function') for step in steps if not exists(step)]
        bad += [(promise, 'is no condition') for promise in model.promises if promise not in conditions]
        bad += failures(model)
        failed |= bool(bad)
        print(f'{name}: {len(steps)} steps x {len(conditions)} conditions:', bad or 'all hold')
        if not mutants_too:
            continue
        for mutant in model.mutants:
            if mutant in model.runs:
                broken = breaks(model, mutant, *model.runs[mutant])
                shows = 'breaks "{}"'.format(model.runs[mutant][0])
            else:
                bad = failures(model, mutant)
                broken, shows = bool(bad), f'refuted, {shown(bad)}' if bad else ''
            failed |= not broken
            print(f'  {mutant}:', shows if broken else 'SURVIVES', flush=True)
        for condition in conditions:
            if condition not in model.promises:
                bad = failures(model, without=condition)
                failed |= not bad
                print(f'  without "{condition}":', shown(bad) if bad else 'IS NOT NEEDED')
    sys.exit(failed)
