#!/usr/bin/env python3
"""Translates functions of integers from the compiler's MIR into Coq.

    proofs/mir2coq.py FILE.mir >proofs/coq/Code.v

MIR is the form of a program in which rustc has resolved every name, type and operator, and has written out
every check for overflow. The translation is one line of Coq for one line of MIR:

- a function returns an `option`: `None` is a panic, `Some` a value;
- an `assert` of MIR (overflow, division by zero, a bound) is `if condition then .. else None`, so a theorem
  that a function equals `Some value` also says that no check fails;
- a block becomes nested ifs: what follows a branch is repeated in each branch;
- integers are numbers of Z; every cast and every operation that may leave its type is wrapped;
- a reference is the value that it points to; changing a value that a reference still sees is an error.

A line, a type, an operator or a called function that is not listed here is an error, never skipped. So is a
loop. Exit codes: 0 translated, 1 something is not understood.
"""
import re
import sys

# The functions to translate: the name in Coq, and the name in MIR without the position of its impl block.
TIED = [
    ('tick_from_nanos', r'tick::<impl>::from_nanos'), ('tick_as_nanos', r'tick::<impl>::as_nanos'),
    ('tick_is_never', r'tick::<impl>::is_never'), ('tick_has_come', r'tick::<impl>::has_come'),
    ('quota_is_unlimited', r'quota::<impl>::is_unlimited'), ('count', r'quota::<impl>::count'),
    ('period_nanos', r'quota::<impl>::period_nanos'), ('max_burst', r'quota::<impl>::max_burst'),
    ('clamped', 'clamped'), ('tick_or_never', 'tick_or_never'), ('fraction', 'params::fraction'), ('part', 'part'),
    ('leaves_a_rest', 'leaves_a_rest'),
    ('is_unlimited', r'params::<impl>::is_unlimited'), ('is_dense', r'params::<impl>::is_dense'),
    ('is_stepped', r'params::<impl>::is_stepped'), ('is_even', r'params::<impl>::is_even'),
    ('new', r'params::<impl>::new'), ('stepped', r'params::<impl>::stepped'), ('starting', r'params::<impl>::starting'),
    ('units_unless_dense', r'params::<impl>::units_unless_dense'), ('dense_units_at', r'params::<impl>::dense_units_at'),
    ('units_at', r'params::<impl>::units_at'), ('units_after', r'params::<impl>::units_after'),
    ('units_of', r'params::<impl>::units_of'), ('tokens', r'params::<impl>::tokens'),
    ('backlog', r'params::<impl>::backlog'), ('burst', r'params::<impl>::burst'),
    ('tick_at_or_before_last', r'params::<impl>::tick_at_or_before_last'), ('tick_at', r'params::<impl>::tick_at'),
    ('step_begun', r'params::<impl>::step_begun'), ('start_after_change', r'params::<impl>::start_after_change'),
    ('tat_from_units', r'gcra::<impl>::from_units'), ('tat_end', r'gcra::<impl>::end'),
    ('tat_backlog_at', r'gcra::<impl>::backlog_at'), ('tat_take', r'gcra::<impl>::take'),
    ('tat_give', r'gcra::<impl>::give'), ('tat_due', r'gcra::<impl>::due_after'),
    ('tat_grant_start', r'gcra::<impl>::grant_start'), ('tat_charge', r'gcra::<impl>::charge_part'),
    ('saturated', 'saturated'), ('scaled', r'quota_change::<impl>::scaled'), ('carried', r'quota_change::<impl>::carried'),
    ('tat_carry', r'gcra::<impl>::carry'), ('newer', 'newer'), ('refundable', 'refundable'),
    ('share', r'quota::<impl>::share'),
    ('end_of_pause', 'end_of_pause'), ('has_ended', 'has_ended'), ('not_before', 'not_before'), ('granted_at', 'granted_at'),
]
# The name of the same functions in calls.
CALLS = {
    'Tick::from_nanos': 'tick_from_nanos', 'Tick::as_nanos': 'tick_as_nanos', 'Tick::is_never': 'tick_is_never',
    'Tick::has_come': 'tick_has_come', 'not_before': 'not_before',
    'Quota::is_unlimited': 'quota_is_unlimited', 'Quota::count': 'count',
    'Quota::period_nanos': 'period_nanos', 'Quota::max_burst': 'max_burst',
    'clamped': 'clamped', 'tick_or_never': 'tick_or_never', 'params::fraction': 'fraction', 'part': 'part',
    'algorithm::params::clamped': 'clamped', 'leaves_a_rest': 'leaves_a_rest',
    'saturated': 'saturated', 'QuotaChange::scaled': 'scaled', 'QuotaChange::carried': 'carried',
    'quota_change::saturated': 'saturated', 'algorithm::quota_change::saturated': 'saturated',
    'Tat::from_units': 'tat_from_units', 'Tat::end': 'tat_end', 'Tat::backlog_at': 'tat_backlog_at',
    **{f'Params::{name}': name for name in (
        'is_unlimited is_dense is_stepped is_even new stepped starting units_unless_dense dense_units_at units_at '
        'units_after units_of tokens backlog burst tick_at_or_before_last tick_at step_begun start_after_change').split()},
}
# Functions of the standard library, which coq/Machine.v defines; they do not panic, but for a division by zero.
LIBRARY = ('div_ceil saturating_sub saturating_add saturating_mul saturating_add_signed wrapping_add wrapping_sub '
           'wrapping_mul checked_div').split()
CONSTANTS = {
    'algorithm::params::Params::UNLIMITED': ('UNLIMITED', r'params::<impl>::UNLIMITED'),
    'algorithm::params::LAST_TICK': ('LAST_TICK', 'LAST_TICK'),
    'algorithm::params::MAX_TAT': ('MAX_TAT', 'MAX_TAT'),
    'algorithm::params::LAST_UNIT': ('LAST_UNIT', 'LAST_UNIT'),
    'algorithm::params::EARLIEST_START': ('EARLIEST_START', 'EARLIEST_START'),
    'algorithm::params::DENSE': ('DENSE', 'DENSE'),
    'algorithm::params::NONE': ('NONE', 'params::NONE'),
    'quota::LARGEST_BURST': ('LARGEST_BURST', 'LARGEST_BURST'),
    'quota::LONGEST': ('LONGEST', 'LONGEST'),
}
# Fields in the order of the source. A struct of one field is its field.
STRUCTS = {
    'Params': [('emission_interval', 'u64'), ('burst_tolerance', 'u64'), ('surplus', '[u64; 2]'), ('step', 'u64'),
               ('start', 'i64'), ('lack', '[u64; 2]'), ('stride', 'u64')],
    'Quota': [('count', 'u64'), ('period', 'u64'), ('burst', 'u64')],
    'Tat': [('0', 'u64')],
    'Tick': [('0', 'u64')],
}
# Enums without content: a value is the number of its variant, in the order of the source.
ENUMS = {'QuotaChange'}
INTS = {'u32', 'i32', 'u64', 'i64', 'u128', 'usize', 'isize'}
ALIASES = {'algorithm::params::Params': 'Params', 'quota::Quota': 'Quota', 'time::tick::Tick': 'Tick',
           'algorithm::gcra::Tat': 'Tat', 'algorithm::quota_change::QuotaChange': 'QuotaChange'}


class NotUnderstood(Exception):
    pass


def tidy_type(text):
    text = text.strip()
    if text.startswith('&mut'):
        raise NotUnderstood(f'a type that may be changed from elsewhere: {text}')
    text = text.removeprefix('&')
    for long, short in ALIASES.items():
        text = text.replace(long, short)
    text = text.replace('std::option::', '').replace('std::result::', '').replace('core::result::', '')
    return text


def coq_type(text):
    text = tidy_type(text)
    if text in INTS or text in ENUMS or text in ('Tat', 'Tick'):
        return 'Z'
    if text == 'bool':
        return 'bool'
    if text in STRUCTS:
        return text.lower()
    if text == '[u64; 2]':
        return '(Z * Z)'
    if m := re.fullmatch(r'\(([\w; \[\]]+), ([\w; \[\]]+)\)', text):
        return f'({coq_type(m[1])} * {coq_type(m[2])})'
    if m := re.fullmatch(r'Option<(\w+)>', text):
        return f'(option {coq_type(m[1])})'
    if m := re.fullmatch(r'Result<(\w+), (\w+)>', text):
        return f'({coq_type(m[1])} + {coq_type(m[2])})'
    raise NotUnderstood(f'type {text}')


def split_arguments(text):
    parts, depth, start = [], 0, 0
    for at, c in enumerate(text):
        depth += c in '([<{'
        depth -= c in ')]>}'
        if c == ',' and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


class Function:
    def __init__(self, name, arguments, result, body):
        self.name, self.result, self.types, self.blocks, self.uses = name, result, {}, {}, set()
        self.parameters = []
        for argument in split_arguments(arguments):
            variable, kind = argument.split(': ', 1)
            self.parameters.append(variable)
            self.types[variable] = tidy_type(kind)
        if not body.startswith('\n'):
            raise NotUnderstood(f'{name}: a body that begins in the line of its head')
        block = None
        for line in body.splitlines():
            line = line.strip()
            if m := re.fullmatch(r'let (?:mut )?(_\d+): (.+);', line):
                # A type that is not known is an error where it is used.
                self.types[m[1]] = m[2]
            elif m := re.fullmatch(r'(bb\d+): \{', line):
                block = self.blocks[m[1]] = []
            elif not line or line == '}' or re.fullmatch(r'scope \d+ \{|debug \w+ => .+;', line):
                if line == '}':
                    block = None
            elif block is None:
                raise NotUnderstood(f'{name}: a line outside a block: {line}')
            else:
                block.append(line)

    def type_of(self, variable):
        return tidy_type(self.types[variable])

    # Places and operands: each is a pair of a term and its type.
    def place(self, text, stale):
        text = text.strip()
        if m := re.fullmatch(r'_\d+', text):
            if text in stale:
                raise NotUnderstood(f'{self.name}: {text} refers to a value that has changed since')
            return f'v{text[1:]}', self.type_of(text)
        if m := re.fullmatch(r'\(\*(_\d+)\)', text):
            return self.place(m[1], stale)
        if m := re.fullmatch(r'\(\((_\d+) as Some\)\.0: (.+)\)', text):
            term, kind = self.place(m[1], stale)
            if kind != f'Option<{tidy_type(m[2])}>':
                raise NotUnderstood(f'{self.name}: {text} of {kind}')
            return f'(content {term})', tidy_type(m[2])
        if m := re.fullmatch(r'\((.+)\.(\d+): (.+)\)', text):
            term, kind = self.place(m[1], stale)
            at, wanted = int(m[2]), tidy_type(m[3])
            if kind in STRUCTS:
                fields = STRUCTS[kind]
                if fields[at][1] != wanted:
                    raise NotUnderstood(f'{self.name}: field {at} of {kind} is not a {wanted}')
                return (term if len(fields) == 1 else f'({kind.lower()}_{fields[at][0]} {term})'), wanted
            if kind.startswith('('):
                kinds = split_arguments(kind[1:-1])
                if len(kinds) != 2 or kinds[at] != wanted:
                    raise NotUnderstood(f'{self.name}: {text} of {kind}')
                return f'({"fst" if at == 0 else "snd"} {term})', wanted
            raise NotUnderstood(f'{self.name}: a field of {kind}')
        if m := re.fullmatch(r'(.+)\[([01]) of 2\]', text):
            term, kind = self.place(m[1], stale)
            if kind != '[u64; 2]':
                raise NotUnderstood(f'{self.name}: an element of {kind}')
            return f'(element {term} {m[2]})', 'u64'
        if m := re.fullmatch(r'(.+)\[(_\d+)\]', text):
            term, kind = self.place(m[1], stale)
            if kind != '[u64; 2]':
                raise NotUnderstood(f'{self.name}: an element of {kind}')
            return f'(element {term} {self.place(m[2], stale)[0]})', 'u64'
        raise NotUnderstood(f'{self.name}: place {text}')

    def operand(self, text, stale):
        text = text.strip()
        if m := re.fullmatch(r'(?:copy|move) (.+)', text):
            return self.place(m[1], stale)
        if m := re.fullmatch(r'const (-?\d+)_(\w+)', text):
            if m[2] in INTS:
                return f'({m[1]})' if m[1].startswith('-') else m[1], m[2]
        if m := re.fullmatch(r'const (true|false)', text):
            return m[1], 'bool'
        if m := re.fullmatch(r'const core::num::<impl (\w+)>::(MAX|MIN)', text):
            return f'({dict(MAX="greatest", MIN="least")[m[2]]} {m[1]})', m[1]
        if m := re.fullmatch(r'const (?:\w+::)*Params::UNLIMITED', text):
            self.uses.add('UNLIMITED')
            return '!UNLIMITED', 'Params'
        if m := re.fullmatch(r'const ([\w:]+)', text):
            for long, (short, _) in CONSTANTS.items():
                if long.endswith(m[1]):
                    self.uses.add(short)
                    return f'!{short}', {'NONE': '[u64; 2]', 'EARLIEST_START': 'i64'}.get(short, 'u64')
        raise NotUnderstood(f'{self.name}: operand {text}')

    def value(self, text, target, stale):
        """The term of what is assigned; `target` is the type of the place."""
        if m := re.fullmatch(r'(Add|Sub|Mul)WithOverflow\((.+)\)', text):
            (a, kind), (b, other) = (self.operand(it, stale) for it in split_arguments(m[2]))
            if kind != other or target != f'({kind}, bool)':
                raise NotUnderstood(f'{self.name}: {text}')
            sign = {'Add': '+', 'Sub': '-', 'Mul': '*'}[m[1]]
            return f'checked {kind} ({a} {sign} {b})'
        if m := re.fullmatch(r'(Shl|Shr)\((.+)\)', text):
            (a, kind), (b, _) = (self.operand(it, stale) for it in split_arguments(m[2]))
            if kind not in ('u64', 'u128') or target != kind:
                raise NotUnderstood(f'{self.name}: {text} of {kind}')
            return f'shl {kind} {a} {b}' if m[1] == 'Shl' else f'shr {a} {b}'
        if m := re.fullmatch(r'(Div|Rem|BitAnd|BitOr|Eq|Ne|Lt|Le|Gt|Ge)\((.+)\)', text):
            (a, kind), (b, other) = (self.operand(it, stale) for it in split_arguments(m[2]))
            if kind != other:
                raise NotUnderstood(f'{self.name}: {text} of {kind} and {other}')
            if m[1] in ('Div', 'Rem', 'BitAnd', 'BitOr'):
                if kind not in ('u64', 'u128') or target != kind:
                    raise NotUnderstood(f'{self.name}: {text} of {kind}')
                return {'Div': f'{a} / {b}', 'Rem': f'{a} mod {b}', 'BitAnd': f'Z.land {a} {b}',
                        'BitOr': f'Z.lor {a} {b}'}[m[1]]
            if kind not in INTS or target != 'bool':
                raise NotUnderstood(f'{self.name}: {text} of {kind}')
            return {'Eq': f'({a} =? {b})', 'Ne': f'negb ({a} =? {b})', 'Lt': f'({a} <? {b})', 'Le': f'({a} <=? {b})',
                    'Gt': f'({b} <? {a})', 'Ge': f'({b} <=? {a})'}[m[1]]
        if m := re.fullmatch(r'Not\((.+)\)', text):
            a, kind = self.operand(m[1], stale)
            if kind == 'bool':
                return f'negb {a}'
            if kind in ('u64', 'u128'):
                return f'greatest {kind} - {a}'
            raise NotUnderstood(f'{self.name}: {text}')
        if m := re.fullmatch(r'(.+) as (\w+) \(IntToInt\)', text):
            a, kind = self.operand(m[1], stale)
            if m[2] != target or m[2] not in INTS:
                raise NotUnderstood(f'{self.name}: {text}')
            if kind == 'bool':
                return f'(if {a} then 1 else 0)'
            if kind not in INTS:
                raise NotUnderstood(f'{self.name}: {text} of {kind}')
            return f'wrap {m[2]} {a}'
        if m := re.fullmatch(r'discriminant\((_\d+)\)', text):
            a, kind = self.place(m[1], stale)
            if kind in ENUMS:
                return a
            if not kind.startswith('Option<'):
                raise NotUnderstood(f'{self.name}: {text} of {kind}')
            return f'(if is_some {a} then 1 else 0)'
        if m := re.fullmatch(r'\[(.+)\]|\((?!\*)((?:copy|move|const) .+, .+)\)', text):
            parts = split_arguments(m[1] or m[2])
            if len(parts) != 2 or (m[1] and target != '[u64; 2]'):
                raise NotUnderstood(f'{self.name}: {text}')
            (a, first), (b, second) = (self.operand(it, stale) for it in parts)
            if target not in (f'({first}, {second})', '[u64; 2]'):
                raise NotUnderstood(f'{self.name}: {text} as {target}')
            return f'({a}, {b})'
        if m := re.fullmatch(r'(?:[\w:]*::)?(Tat|Tick)\((.+)\)', text):
            a, kind = self.operand(m[2], stale)
            if kind != 'u64' or target != m[1]:
                raise NotUnderstood(f'{self.name}: {text}')
            return a
        if m := re.fullmatch(r'Result::<[^()]*>::(Ok|Err)\((.+)\)', text):
            return f'{"inl" if m[1] == "Ok" else "inr"} {self.operand(m[2], stale)[0]}'
        if m := re.fullmatch(r'(Params|Quota) \{ (.+) \}', text):
            if target != m[1]:
                raise NotUnderstood(f'{self.name}: {text}')
            given = [part.split(': ', 1) for part in split_arguments(m[2])]
            terms = [(name, *self.operand(operand, stale)) for name, operand in given]
            if [(name, kind) for name, _, kind in terms] != STRUCTS[m[1]]:
                raise NotUnderstood(f'{self.name}: fields of {text}')
            return f'Build_{m[1].lower()} ' + ' '.join(term for _, term, _ in terms)
        term, kind = self.operand(text, stale)
        if kind != target:
            raise NotUnderstood(f'{self.name}: {text} is a {kind}, not a {target}')
        return term

    def assigned(self, place, term, stale, borrowed):
        """The pattern and the term of an assignment, and what becomes stale by it."""
        now_stale = lambda variable: (stale - {variable}) | {ref for ref, of in borrowed.items() if of == variable}
        if re.fullmatch(r'_\d+', place):
            return f'v{place[1:]}', term, now_stale(place)
        if m := re.fullmatch(r'\((_\d+)\.(\d+): (.+)\)', place):
            kind = self.type_of(m[1])
            if kind not in STRUCTS or len(STRUCTS[kind]) == 1:
                raise NotUnderstood(f'{self.name}: {place}')
            old = f'v{m[1][1:]}'
            fields = [f'({term})' if at == int(m[2]) else f'({kind.lower()}_{name} {old})'
                      for at, (name, _) in enumerate(STRUCTS[kind])]
            return old, f'Build_{kind.lower()} ' + ' '.join(fields), now_stale(m[1])
        raise NotUnderstood(f'{self.name}: an assignment to {place}')

    def bind(self, pattern, term, indent):
        """A let, after the constants in the term, which are functions without arguments."""
        lines = []
        for constant in sorted(set(re.findall(r'!(\w+)', term))):
            lines.append(f'{indent}bind {constant} (fun c_{constant} =>')
        return lines, re.sub(r'!(\w+)', r'c_\1', term)

    def block(self, name, indent, path, stale, borrowed):
        if name in path:
            raise NotUnderstood(f'{self.name}: a loop through {name}')
        path, out, closing = path | {name}, [], 0
        borrowed = dict(borrowed)
        *statements, last = self.blocks[name]
        for line in statements:
            if re.fullmatch(r'Storage(?:Live|Dead)\(_\d+\);', line):
                continue
            m = re.fullmatch(r'(.+?) = (.+);', line)
            if not m:
                raise NotUnderstood(f'{self.name}: {line}')
            place, text = m[1], m[2]
            if r := re.fullmatch(r'&(_\d+)', text):
                borrowed[place] = r[1]
                text = f'copy {r[1]}'
            target = self.type_of(place) if re.fullmatch(r'_\d+', place) else self.place(place, stale)[1]
            pattern, term, stale = self.assigned(place, self.value(text, target, stale), stale, borrowed)
            if r is not None:
                borrowed[place] = r[1]
            lines, term = self.bind(pattern, term, indent)
            closing += len(lines)
            out += lines + [f'{indent}let {pattern} := {term} in']
        lines, more = self.terminator(last, indent, path, stale, borrowed)
        return out + lines + ([f'{indent}{")" * (closing + more)}'] if closing + more else [])

    def terminator(self, line, indent, path, stale, borrowed):
        go = lambda block, deeper='': self.block(block, indent + deeper, path, stale, borrowed)
        if line == 'return;':
            return [f'{indent}Some v0'], 0
        if line == 'unreachable;':
            return [f'{indent}None'], 0
        if m := re.fullmatch(r'goto -> (bb\d+);', line):
            return go(m[1]), 0
        if m := re.fullmatch(r'assert\((!?)(move .+?|copy .+?), ".*\) -> \[success: (bb\d+), unwind (?:continue|unreachable)\];', line):
            condition, kind = self.operand(m[2], stale)
            if kind != 'bool':
                raise NotUnderstood(f'{self.name}: {line}')
            condition = f'negb {condition}' if m[1] else condition
            return [f'{indent}if {condition} then'] + go(m[3]) + [f'{indent}else None'], 0
        if m := re.fullmatch(r'switchInt\((.+)\) -> \[(.+), otherwise: (bb\d+)\];', line):
            value, kind = self.operand(m[1], stale)
            out, cases = [], [case.split(': ') for case in m[2].split(', ')]
            for number, block in cases:
                condition = f'{value} =? {number}'
                if kind == 'bool':
                    if number != '0':
                        raise NotUnderstood(f'{self.name}: {line}')
                    condition = f'negb {value}'
                # The numbers of other signed types are written without their sign.
                elif kind not in ('u64', 'u128', 'isize'):
                    raise NotUnderstood(f'{self.name}: {line}')
                out += [f'{indent}if {condition} then'] + go(block, '  ') + [f'{indent}else']
            return out + go(m[3], '  '), 0
        if m := re.fullmatch(r'(.+?) = (.+)\((.*)\) -> \[return: (bb\d+), unwind (?:continue|unreachable)\];', line):
            place, callee, arguments = m[1], m[2], [self.operand(it, stale) for it in split_arguments(m[3])]
            if not re.fullmatch(r'_\d+', place):
                raise NotUnderstood(f'{self.name}: {line}')
            terms = ' '.join(term for term, _ in arguments)
            if f := re.fullmatch(r'core::num::<impl (u64|u128)>::(\w+)', callee):
                if f[2] not in LIBRARY or arguments[0][1] != f[1]:
                    raise NotUnderstood(f'{self.name}: {callee}')
                call = f'{f[2]} {f[1]} {terms}'
            elif callee in CALLS:
                call = f'{CALLS[callee]} {terms}'
                self.uses.add(CALLS[callee])
            else:
                raise NotUnderstood(f'{self.name}: a call of {callee}')
            pattern, _, stale = self.assigned(place, '', stale, borrowed)
            lines, call = self.bind(pattern, call, indent)
            rest = self.block(m[4], indent, path, stale, borrowed)
            return lines + [f'{indent}bind ({call}) (fun {pattern} =>'] + rest, 1 + len(lines)
        raise NotUnderstood(f'{self.name}: {line}')

    def coq(self):
        parameters = ' '.join(f'(v{it[1:]} : {coq_type(self.types[it])})' for it in self.parameters)
        head = f'Definition {self.name}{" " + parameters if parameters else ""} : option {coq_type(self.result)} :='
        return '\n'.join([head] + self.block('bb0', '  ', frozenset(), frozenset(), {})) + '.\n'


def functions(text):
    """All functions and constants of a file, by their name without positions."""
    found = {}
    heads = re.compile(r'^(?:(fn) ([^\n]*?)\((_1[^\n]*|)\) -> ([^\n]*)|(?:const|static) ([^\n]*?): ([^\n]*?) =) \{(\n.*?)^\}',
                       re.S | re.M)
    text = re.sub(r'<impl at [^>]*>', '<impl>', text)
    # A constant that is a literal has one line.
    text = re.sub(r'^(const [\w:]+: (\w+)) = (const -?\d+_\2);$',
                  r'\1 = {\n    let mut _0: \2;\n\n    bb0: {\n        _0 = \3;\n        return;\n    }\n}', text, flags=re.M)
    for m in heads.finditer(text):
        before = text.rfind('\n', 0, m.start() - 1)
        ctfe = text[before + 1:m.start()].startswith('// MIR FOR CTFE')
        name = m[2] or m[5]
        if not ctfe:
            found.setdefault(name, []).append((m[3] or '', m[4] or m[6], m[7]))
    return found


def translate(text):
    found, made = functions(text), {}
    wanted = TIED + [pair for pair in CONSTANTS.values()]
    for name, path in wanted:
        bodies = found.get(path, [])
        if len(bodies) != 1:
            raise NotUnderstood(f'{path} is there {len(bodies)} times, not once')
        arguments, result, body = bodies[0]
        # A constant has its type with its full path.
        made[name] = Function(name, arguments, tidy_type(result), body)
        made[name].text = made[name].coq()
    out, done = [], set()

    def write(name):
        if name in done:
            return
        done.add(name)
        for used in sorted(made[name].uses):
            write(used)
        out.append(made[name].text)

    for name, _ in wanted:
        write(name)
    return out


def main():
    with open(sys.argv[1]) as file:
        text = file.read()
    try:
        out = translate(text)
    except NotUnderstood as reason:
        sys.exit(f'not understood: {reason}\nWrite the function in operators that the translator knows, or add what is missing '
                 'to proofs/mir2coq.py, with its meaning in proofs/coq/Machine.v.')
    print('(* The arithmetic of src/algorithm/{params,gcra,quota_change,refunds,ledger/pause}.rs, src/quota.rs and src/time/tick.rs,')
    print('   from MIR by proofs/mir2coq.py. Do not edit: `scripts/proofs` compares this file with the compiler. *)')
    print('Require Import ZArith.\nRequire Import Machine.\nOpen Scope Z_scope.\n')
    for name, fields in STRUCTS.items():
        if len(fields) > 1:
            kinds = '; '.join(f'{name.lower()}_{field} : {coq_type(kind)}' for field, kind in fields)
            print(f'Record {name.lower()} := {{ {kinds} }}.\n')
    print('\n'.join(out), end='')


main()
