//! The line reader over streams that are cut at every possible place.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use jsonrpc::{Line, LineReader};
use proptest::prelude::*;
use tokio::io::{AsyncRead, ReadBuf};

/// Gives the bytes in pieces of the given sizes, over and over, and counts the reads.
struct SplitReader<'a> {
    bytes: &'a [u8],
    sizes: std::iter::Cycle<std::iter::Copied<std::slice::Iter<'a, usize>>>,
    reads: usize,
}

fn pieces<'a>(bytes: &'a [u8], sizes: &'a [usize]) -> SplitReader<'a> {
    SplitReader { bytes, sizes: sizes.iter().copied().cycle(), reads: 0 }
}

impl AsyncRead for SplitReader<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.reads += 1;
        let size = self.sizes.next().unwrap_or(1).max(1).min(buffer.remaining());
        let (piece, rest) = self.bytes.split_at(size.min(self.bytes.len()));
        buffer.put_slice(piece);
        self.bytes = rest;
        Poll::Ready(Ok(()))
    }
}

/// Never waits, so any executor will do.
fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// The lines, `None` for each one that was too long.
fn lines(bytes: &[u8], sizes: &[usize], max: usize) -> Vec<Option<Vec<u8>>> {
    run(async {
        let mut reader = LineReader::new(pieces(bytes, sizes), max);
        let mut lines = Vec::new();
        while let Some(line) = reader.next_line().await.unwrap() {
            lines.push(match line {
                Line::Text(text) => Some(text.to_vec()),
                Line::TooLong => None,
            });
        }
        lines
    })
}

#[test]
fn lines_do_not_depend_on_read_boundaries() {
    let check = |text: &str, max: usize, expect: &[Option<&str>]| {
        let expect: Vec<_> =
            expect.iter().map(|line| line.map(|l| l.as_bytes().to_vec())).collect();
        for size in 1..=text.len().max(1) {
            assert_eq!(lines(text.as_bytes(), &[size], max), expect, "{text:?} by {size}");
        }
    };
    check("", 9, &[]);
    check("\n\r\n  \n\t\r\n", 9, &[]);
    check("a\nb\n", 9, &[Some("a"), Some("b")]);
    check("a\r\nb", 9, &[Some("a"), Some("b")]);
    check("é ü\n\n x \n", 9, &[Some("é ü"), Some(" x ")]);
    check("123\n1234\n12345\n1", 4, &[Some("123"), Some("1234"), None, Some("1")]);
    check("12345", 4, &[None]);
    check("123456789\r\n\n123456789\n1\n", 4, &[None, None, Some("1")]);
}

#[test]
fn one_read_can_return_many_lines() {
    let text = "{\"method\":\"m\"}\n".repeat(4000);
    let reads = run(async {
        let mut source = pieces(text.as_bytes(), &[usize::MAX]);
        let mut reader = LineReader::new(&mut source, 100);
        let mut count = 0;
        while reader.next_line().await.unwrap().is_some() {
            count += 1;
        }
        drop(reader);
        assert_eq!(count, 4000);
        source.reads
    });
    assert!(reads <= 3, "{reads} reads for {} bytes", text.len());
}

#[test]
fn memory_is_bounded_and_released() {
    const MAX: usize = 16 << 20;
    let mut text = vec![b'x'; MAX];
    text.push(b'\n');
    text.extend(vec![b'y'; MAX + 1]);
    text.push(b'\n');
    text.extend(vec![b'z'; 64 << 20]);
    text.extend(b"\nlast\n");
    run(async {
        let mut reader = LineReader::new(pieces(&text, &[usize::MAX]), MAX);
        let Some(Line::Text(line)) = reader.next_line().await.unwrap() else { panic!("no line") };
        assert_eq!(line.len(), MAX);
        for _ in 0..2 {
            assert_eq!(reader.next_line().await.unwrap(), Some(Line::TooLong));
            assert!(reader.buffer_capacity() <= MAX + (64 << 10));
        }
        assert_eq!(reader.next_line().await.unwrap(), Some(Line::Text(b"last")));
        assert_eq!(reader.next_line().await.unwrap(), None);
        assert!(reader.buffer_capacity() <= 256 << 10, "{}", reader.buffer_capacity());
    });
}

proptest! {
    #[test]
    fn any_read_boundaries_give_the_same_lines(
        text in "[a-c\r\n ]{0,200}",
        sizes in prop::collection::vec(1_usize..40, 1..8),
        max in 0_usize..12,
    ) {
        let expect: Vec<_> = text
            .split('\n')
            .filter(|line| line.len() > max || !line.trim_ascii().is_empty())
            .map(|line| {
                let text = line.strip_suffix('\r').unwrap_or(line);
                (line.len() <= max).then(|| text.as_bytes().to_vec())
            })
            .collect();
        prop_assert_eq!(lines(text.as_bytes(), &sizes, max), expect);
    }
}
