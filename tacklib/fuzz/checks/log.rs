//! Key logs and qlogs that are read back.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// What is written to it, for all that have a copy.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Takes what was written so far.
    pub fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
    }

    /// The secret of a line of a key log.
    pub fn secret(&self, label: &str) -> Vec<u8> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let mut lines = text.lines().map(|line| line.split(' '));
        let mut words = lines.find(|words| words.clone().next() == Some(label)).unwrap();
        let hex = words.nth(2).unwrap();
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(byte).collect()
    }
}
