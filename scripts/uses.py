"""Which file of a crate names what another one defines, read from its sources without a compiler."""

import re

USE = re.compile(r"^[ \t]*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.MULTILINE)
VISIBILITY = re.compile(r"\bpub\([^)]*\)")
PATH = re.compile(r"\b(?:crate|self|super)(?:::\w+)+")


def is_test(path):
    return path.name == "tests.rs" or path.stem.endswith("_tests") or "tests" in path.parts


def is_program(path):
    """Whether a file is text of the guide, which documentation includes and no module is."""
    return path.parts[:2] == ("guide", "programs")


def sources(folder):
    files = ((path, path.relative_to(folder)) for path in folder.rglob("*.rs"))
    return sorted(path for path, place in files if not is_test(place) and not is_program(place))


def code(path):
    """The lines of a file that are code: no comments, no blank lines, no unit tests."""
    lines = path.read_text().splitlines()
    if "mod tests {" in lines:
        # They are the last item of a file, behind a line with their `cfg`.
        lines = lines[: lines.index("mod tests {") - 1]
    return [line for line in lines if line.strip() and not line.strip().startswith("//")]


def branches(tree):
    """The parts of a list in braces, which are separated by the commas that are in no inner braces."""
    depth, found = 0, [""]
    for letter in tree:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [branch.strip() for branch in found if branch.strip()]


def leaves(tree):
    """The paths of what stands behind `use`, each with the name that it gets in the file."""
    head, brace, rest = tree.partition("{")
    if brace:
        prefix = [part.strip() for part in head.split("::") if part.strip()]
        for branch in branches(rest.rpartition("}")[0]):
            for path, name in leaves(branch):
                yield prefix + path, prefix[-1] if name == "self" else name
    else:
        path, _, name = (part.strip() for part in tree.partition(" as "))
        yield path.split("::"), name or path.split("::")[-1]


class Crate:
    """The modules of a folder of sources, each a file, with what they name."""

    def __init__(self, folder):
        self.files = {self.module(path.relative_to(folder)): path for path in sources(folder)}
        self.text = {module: "\n".join(code(path)) for module, path in self.files.items()}
        self.used, self.imported, self.exported = {}, {}, {}
        for module, text in self.text.items():
            self.read(module, text)

    @staticmethod
    def module(path):
        parts = path.with_suffix("").parts
        return () if parts == ("lib",) else parts[:-1] if parts[-1] == "mod" else parts

    def read(self, module, text):
        self.imported[module], self.exported[module] = {}, {}
        # A file that only exports what others define does not depend on it.
        self.used[module] = [path.group().split("::") for path in PATH.finditer(VISIBILITY.sub("", USE.sub("", text)))]
        for use in USE.finditer(text):
            for path, name in leaves(use.group(2)):
                (self.exported if use.group(1) else self.imported)[module][name] = path
        self.used[module] += self.imported[module].values()

    def absolute(self, module, path):
        """A path from the root of the crate, or None for one of another crate."""
        while path and path[-1] == "self" and len(path) > 1:
            path = path[:-1]
        first, *rest = path
        if first == "crate":
            return tuple(rest)
        if first == "self":
            return (*module, *rest)
        if first == "super":
            above = module[:-1]
            while rest and rest[0] == "super":
                above, rest = above[:-1], rest[1:]
            return (*above, *rest)
        return (*module, *path) if (*module, first) in self.files else None

    def defining(self, path):
        """The module in which the end of a path is defined, and its name there."""
        for _ in range(len(self.files)):
            module = path
            while module not in self.files:
                module = module[:-1]
            name, *rest = path[len(module) :] or (None,)
            again = self.exported[module].get(name) or self.imported[module].get(name)
            again = again and self.absolute(module, again)
            if not again:
                break
            path = (*again, *rest)
        return module, name

    def names(self, module):
        """What a file names of other files: the module that defines it, and its name or None."""
        paths = (self.absolute(module, path) for path in self.used[module])
        found = {self.defining(path) for path in paths if path is not None}
        return {(other, name) for other, name in found if other != module}

    def circles(self):
        """The files that name each other, directly or through others: the strongly connected components."""
        after = {module: {other for other, _ in self.names(module)} for module in self.files}
        reached = {module: reachable(module, after) for module in after}
        circles = {frozenset(other for other in there if module in reached[other]) for module, there in reached.items()}
        return sorted((sorted(circle) for circle in circles if len(circle) > 1), key=lambda circle: (-len(circle), circle))


def reachable(start, after):
    found, left = set(), [start]
    while left:
        new = after[left.pop()] - found
        found |= new
        left.extend(new)
    return found
