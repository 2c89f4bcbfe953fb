//! The other examples do what their first lines say.

#![allow(clippy::expect_used, reason = "a test may fail anywhere")]

use std::process::Command;

fn printed(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("cargo has built it");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    printed
}

#[test]
fn requests_are_answered_and_their_latencies_are_in_order() {
    let printed = printed(env!("CARGO_BIN_EXE_request_reply"), &["300"]);
    let latencies: Vec<u64> = printed
        .lines()
        .filter_map(|line| line.strip_suffix(" us")?.split_whitespace().last()?.parse().ok())
        .collect();
    assert_eq!(latencies.len(), 5, "{printed}");
    assert!(latencies[0] > 0 && latencies.is_sorted(), "{printed}");
}

#[test]
fn the_video_follows_the_path_down_and_up_again() {
    let printed = printed(env!("CARGO_BIN_EXE_video"), &[]);
    // Link and target in Mbit/s, and frames that arrived, of each second.
    let seconds: Vec<[f64; 3]> = printed
        .lines()
        .skip(1)
        .map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            [1, 2, 8].map(|column| columns[column].parse().expect(line))
        })
        .collect();
    assert_eq!(seconds.len(), 6, "{printed}");
    // The path gets narrow after two seconds and wide again after four.
    let [narrow, wide] = [seconds[3], seconds[5]];
    assert!(narrow[0] < wide[0], "{printed}");
    assert!(narrow[1] < wide[0] / 2.0, "the video does not give way\n{printed}");
    assert!(wide[1] > narrow[1], "the video did not recover\n{printed}");
    let frames: f64 = seconds.iter().map(|[_, _, frames]| frames).sum();
    assert!(frames > 120.0, "most of 180 frames should arrive\n{printed}");
}
