//! The error message of a thread's last failed call.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::new(CString::default());
}

/// Records a message.
pub(crate) fn set(text: &str) {
    let text: Vec<u8> = text.bytes().filter(|&byte| byte != 0).collect();
    let text = CString::new(text).unwrap_or_default();
    // At the end of a thread the storage is gone, and so are its readers.
    let _ = LAST_ERROR.try_with(|last| last.replace(text));
}

/// The recorded message. Valid until the next [`set`] of this thread or its end.
pub(crate) fn get() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn text() -> CString {
        LAST_ERROR.with(|last| last.borrow().clone())
    }

    #[test]
    fn each_thread_has_its_own() {
        set("one\0 more");
        assert_eq!(text().as_c_str(), c"one more");
        thread::spawn(|| assert_eq!(text().as_c_str(), c"")).join().unwrap();
        let before = get();
        assert_eq!(before, get());
    }
}
