set positional-arguments

# List the commands.
_default:
    @just --list

# A transfer over an emulated link, with and without TACK.
demo *ARGS:
    @cargo build --release -p tack-cli --bin tack
    @cargo run --release -q -p tack-cli --bin tack -- demo "$@"

# Draw the figures of docs/congestion-control.md anew, in docs/figures.
figures:
    #!/usr/bin/env bash
    set -euo pipefail
    mkdir -p docs/figures target/figures
    cargo run --release -q -p tack-lab -- run controller --out target/figures >/dev/null
    cp target/figures/controller-*.svg docs/figures/

# Run the demo and the lab's short form anew and keep both in docs/results; wants an idle machine.
results:
    #!/usr/bin/env bash
    set -euo pipefail
    cargo build --release -p tack-cli --bin tack
    demo() { cargo run --release -q -p tack-cli --bin tack -- demo --quiet "$@"; }
    mkdir -p docs/results
    demo --json >docs/results/demo.json
    {
        echo '# `tack demo`'
        echo
        echo 'Written by `just results`: this table by `tack demo --quiet`, [demo.json](demo.json) by'
        echo '`tack demo --quiet --json`. Those are two runs, so their figures differ a little.'
        echo
        echo '```text'
        demo
        echo '```'
    } >docs/results/demo.md
    cargo build --release -p tack-lab
    lab() { cargo run --release -q -p tack-lab -- "$@"; }
    lab run all --quick --out target/results >target/results.txt
    {
        echo '# `tack-lab run all --quick`'
        echo
        echo 'Written by `just results`. The figures of the short form are of short runs and few seeds;'
        echo '`tack-lab run all` takes the whole time. "agrees" and "differs" hold them against the paper.'
        echo
        echo '```text'
        cat target/results.txt
        echo '```'
    } >docs/results/lab.md

# The lab's experiments in full, one page for each in docs/results/full; NAMES chooses some. All take hours.
results-full *NAMES:
    #!/usr/bin/env bash
    set -euo pipefail
    cargo build --release -p tack-lab
    lab() { cargo run --release -q -p tack-lab -- "$@"; }
    mkdir -p docs/results/full target/results-full
    page=target/results-full/page.md
    state=$(git describe --always)
    git diff --quiet HEAD -- . ':!docs/results' || state+=', changed,'
    for name in ${@:-$(lab list | awk 'NR > 2 { print $1 }')}; do
        # A check that fails is a result, too; a run that has not come to its last line is none.
        lab run "$name" --out target/results-full >target/results-full/"$name".txt ||
            tail -n 1 target/results-full/"$name".txt | grep -q 'Results are in ' || {
            echo "tack-lab run $name has failed: its page stays as it was" >&2
            exit 1
        }
        {
            echo "# \`tack-lab run $name\`"
            echo
            echo "The output at $state; \`just results-full $name\` keeps it here."
            echo
            echo '```text'
            grep -v '^Results are in ' target/results-full/"$name".txt
            echo '```'
        } >"$page"
        mv "$page" docs/results/full/"$name".md
    done

# Every cell of the interop matrix anew, and its page in docs/results/interop; wants an idle machine.
interop-results:
    #!/usr/bin/env bash
    set -euo pipefail
    mkdir -p docs/results/interop target/interop
    cargo build --release -p tack-interop
    # The cells of the other peers are run whichever peer cannot be fetched.
    missing=0 failed=0
    cargo run --release -q -p tack-interop -- fetch || missing=1
    cargo run --release -q -p tack-interop -- run --jobs 4 \
        --html docs/results/interop/index.html --json target/interop/matrix.json || failed=1
    exit $((missing | failed))

# The lab's experiments, `--quick` or in full; fails if a check of the models does.
lab *ARGS:
    cargo run --release -p tack-lab -- run all "$@"

# Some experiments of each kind, in their short form; fails if a check of the models does.
lab-short:
    cargo run --release -p tack-lab -- run --quick calibration fig6 fig14a bandwidth-step live-media stale \
        suspension two-way busy-ends startup l4s burst small-writes nagle

# Instructions for each MiB delivered, plain quiche beside TACK; needs valgrind.
instructions *ARGS: _valgrind
    @cargo run --release -q -p tack-benches --bin instructions-per-mib -- "$@"

# Hold a short transfer's instructions against benches/instructions-limits.toml; needs valgrind.
instructions-gate: _valgrind
    @cargo run --release -q -p tack-benches --bin instructions-per-mib -- --gate

# Count them anew and keep table and JSON in docs/results; needs valgrind.
instructions-results: _valgrind
    #!/usr/bin/env bash
    set -euo pipefail
    cargo build --release -p tack-benches --bin instructions-per-mib
    count() { cargo run --release -q -p tack-benches --bin instructions-per-mib -- "$@"; }
    others=(--arm streams,http3,client-receives,client-sends --batch 4,14,32 --mib 8)
    requests=(--arm requests --batch 1,4,14 --mib 6 --warm-up-mib 6)
    mkdir -p docs/results
    count --json >docs/results/instructions.json
    {
        echo '# `just instructions`'
        echo
        echo 'Written by `just instructions-results`: instructions of both ends together for each MiB'
        echo 'delivered, and [instructions.json](instructions.json). `batch` is how many datagrams an'
        echo 'end reads before it may answer; plain quiche acknowledges each batch.'
        echo
        echo '```text'
        count
        echo '```'
        echo
        echo 'Shorter transfers: both ends on streams and over HTTP/3; then the client alone of a server'
        echo 'that knows nothing of TACK, which receives the data, and which sends it.'
        echo
        echo '```text'
        count "${others[@]}"
        echo '```'
        echo
        echo 'Replies of 10,000 bytes to requests of 100, one after the other: both ends.'
        echo
        echo '```text'
        count "${requests[@]}"
        echo '```'
    } >docs/results/instructions.md

# Transfers between two processes: TACK, plain quiche, quinn and s2n-quic in turns; `--help` lists options.
perf *ARGS:
    @./benches/compare-perf "$@"

_valgrind:
    @command -v valgrind >/dev/null || { echo "valgrind is missing; Debian: apt-get install valgrind" >&2; exit 1; }

# The most important interop test cases against stock peers; installs what they take.
interop *ARGS:
    ./.ci/interop "$@"

# Build tacklib for C and C++, and place headers, libraries and tacklib.pc below PREFIX.
install-c PREFIX:
    ./crates/tack-ffi/install "$1"

# Build, check and test the GStreamer plugin; needs GStreamer's development files and gst-launch-1.0.
gstreamer:
    #!/usr/bin/env bash
    set -euo pipefail
    pkg-config --exists 'gstreamer-1.0 >= 1.22' gstreamer-video-1.0 gstreamer-app-1.0 || {
        echo "GStreamer 1.22 is missing; Debian: apt-get install libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev" >&2
        exit 1
    }
    # One target directory for both workspaces.
    CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
    export CARGO_TARGET_DIR
    cd crates/tack-gstreamer
    cargo fmt --check
    cargo build --locked
    cargo clippy --locked --all-targets -- -D warnings
    cargo test --locked
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps

# A Debian package of `tack` in DIR; needs dpkg-dev.
deb dir="target/deb":
    ./crates/tack-cli/packaging/build-deb {{ dir }}

# `tack` as one file that needs no libraries, linked to musl by zig. Needs `pip install ziglang`,
# `cargo install cargo-zigbuild` and `rustup target add x86_64-unknown-linux-musl`.
static arch="x86_64":
    cargo zigbuild --profile static --target {{ arch }}-unknown-linux-musl -p tack-cli --bin tack
    @ls -l target/{{ arch }}-unknown-linux-musl/static/tack
    @test "$(stat -c %s target/{{ arch }}-unknown-linux-musl/static/tack)" -lt 8000000 || { echo 'static: tack has 8 MB or more' >&2; exit 1; }

# All tests.
test:
    cargo test --workspace

# Formatting, that of the workspaces beside this one too, and clippy, warnings denied.
lint:
    git ls-files '*Cargo.toml' | xargs grep -l '^\[workspace\]' | xargs -I% cargo fmt --manifest-path % --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# The documentation, warnings denied.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace

# Licences, sources and bans of the dependencies, or other CHECKS; needs cargo-deny.
deny *CHECKS="bans licenses sources":
    #!/usr/bin/env bash
    set -euo pipefail
    # What users build or link; each has a lock file.
    for manifest in Cargo.toml crates/tack-gstreamer/Cargo.toml examples/moq/Cargo.toml; do
        cargo deny --manifest-path "$manifest" check {{ CHECKS }}
    done

# Fuzz every target for so many seconds each; needs cargo-fuzz and a nightly toolchain.
fuzz seconds="60":
    #!/usr/bin/env bash
    set -euo pipefail
    root=$PWD
    # A fuzz crate is a folder `fuzz` beside the crate that it feeds; each [[bin]] is a target.
    manifests=$(git ls-files '*/fuzz/Cargo.toml')
    [[ -n $manifests ]] || { echo "git knows of no fuzz crates here" >&2; exit 1; }
    for manifest in $manifests; do
        cd "$root/$(dirname "$manifest")/.."
        targets=$(cargo +nightly fuzz list)
        [[ -n $targets ]] || { echo "$manifest has no targets" >&2; exit 1; }
        for target in $targets; do
            found=$root/target/fuzz-corpus/$target
            mkdir -p "$found"
            kept=()
            [[ -d fuzz/corpus/$target ]] && kept=("fuzz/corpus/$target")
            # Sanitizers would multiply the CPU time that is held to a bound. A hosted job runs the unsafe
            # crates' own tests with them.
            cargo +nightly fuzz run --sanitizer none "$target" "$found" "${kept[@]}" -- \
                -max_total_time={{ seconds }} -timeout=20 -rss_limit_mb=512
        done
    done

# A part that fails does not keep the others from running, and the last lines say what passed, failed
# and was skipped. PARTS (lab, interop, fuzz, ignored, soak, rounds, paths, streams, moq) names the ones to run; all take hours.
# What takes too long for each change: full lab, whole interop matrix, fuzzing, ignored tests, soak.
nightly *PARTS:
    ./.ci/nightly "$@"

# Everything that has to pass before a change goes in.
ci:
    ./.ci/run
