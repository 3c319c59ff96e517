//! A list that grows without moving what it holds: by one chunk of a fixed size, so a call that adds
//! one takes no longer than others.

/// Elements of a chunk.
const CHUNK: usize = 64;

/// Elements in chunks.
pub(super) struct Chunked<T> {
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Chunked<T> {
    pub(super) fn new() -> Self {
        Self {
            chunks: Vec::new(),
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, number: usize) -> &T {
        &self.chunks[number / CHUNK][number % CHUNK]
    }

    pub(super) fn get_mut(&mut self, number: usize) -> &mut T {
        &mut self.chunks[number / CHUNK][number % CHUNK]
    }

    /// Adds one, and says which number it has.
    pub(super) fn push(&mut self, element: T) -> usize {
        let chunk = self.len / CHUNK;
        if chunk == self.chunks.len() {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks[chunk].push(element);
        self.len += 1;
        self.len - 1
    }
}

#[cfg(test)]
mod tests {
    use super::Chunked;

    #[test]
    fn it_is_a_vector_whose_elements_are_never_moved() {
        let mut chunked = Chunked::new();
        for number in 0..1000 {
            assert_eq!(chunked.push(number), number);
            let first: *const usize = chunked.get(0);
            *chunked.get_mut(number) += 1;
            assert_eq!(first, std::ptr::from_ref(chunked.get(0)));
        }
        assert_eq!(chunked.len(), 1000);
        assert!((0..1000).all(|number| *chunked.get(number) == number + 1));
        assert_eq!(chunked.chunks.len(), 1000_usize.div_ceil(super::CHUNK));
    }
}
