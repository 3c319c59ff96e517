//! A table of numbers as it is written, with names in its first line. A cell may be empty.

pub(crate) struct Table {
    names: Vec<String>,
    rows: Vec<Vec<Option<u64>>>,
}

impl Table {
    pub(crate) fn read(csv: &str) -> Table {
        let mut lines = csv.lines();
        let names = lines.next().expect("a line of names").split(',');
        let names: Vec<_> = names.map(str::to_owned).collect();
        let cell = |cell: &str| match cell {
            "" => None,
            number => Some(number.parse().expect("a number")),
        };
        let rows: Vec<Vec<_>> = lines
            .map(|line| line.split(',').map(cell).collect())
            .collect();
        assert!(rows.iter().all(|row| row.len() == names.len()));
        Table { names, rows }
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    pub(crate) fn column(&self, name: &str) -> Vec<Option<u64>> {
        let column = self.names.iter().position(|one| one == name);
        let column = column.unwrap_or_else(|| panic!("no column {name}"));
        self.rows.iter().map(|row| row[column]).collect()
    }
}
