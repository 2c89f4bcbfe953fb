//! TACK protocol logic: frames, receiver and sender state, sans-I/O
