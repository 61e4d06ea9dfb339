//! A recursive watch during a checkout of another branch and an installation of packages: the client's picture
//! equals the disk at the end, every time. `cargo xtask soak` runs it on 50,000 files, a hundred times.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::{Peer, TestServer};

use super::picture::Picture;
use super::{environment, paths_of, watch};

/// A number of the environment, for `cargo xtask soak`.
fn setting(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

fn git(folder: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "gc.auto=0"];
    let output = Command::new("git")
        .args(identity)
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A repository of `files` files with a second branch `other`, in which a third of the folders is gone, a
/// third has other contents and some are new.
fn make_repository(root: &Path, files: usize) {
    let folder = |number: usize| root.join(format!("src/{}/{}", number / 1_000, number / 20));
    let write = |number: usize, contents: &str| {
        std::fs::create_dir_all(folder(number)).unwrap();
        std::fs::write(folder(number).join(number.to_string()), contents).unwrap();
    };
    git(root, &["init", "-q", "-b", "main"]);
    (0..files).for_each(|number| write(number, "first"));
    git(root, &["add", "src"]);
    git(root, &["commit", "-qm", "first"]);
    git(root, &["checkout", "-qb", "other"]);
    for number in (0..files).step_by(60) {
        std::fs::remove_dir_all(folder(number)).unwrap();
        (number + 20..number + 40).for_each(|number| write(number, "changed"));
        write(files + number, "new");
    }
    git(root, &["add", "-A", "src"]);
    git(root, &["commit", "-qm", "second"]);
}

/// What a package manager does: packages are unpacked beside their place and renamed into it, older ones are
/// renamed away and removed.
fn install(modules: &Path, packages: usize, run: usize) {
    std::fs::create_dir_all(modules).unwrap();
    for package in 0..packages {
        let (staged, place) =
            (modules.join(format!(".staged-{package}")), modules.join(format!("p{package}")));
        for depth in ["", "lib", "lib/deep", "node_modules/inner/dist"] {
            std::fs::create_dir_all(staged.join(depth)).unwrap();
            for file in 0..5 {
                let name = format!("{file}-{}.js", run % 2);
                std::fs::write(staged.join(depth).join(name), run.to_string()).unwrap();
            }
        }
        let old = modules.join(format!(".old-{package}"));
        if place.exists() {
            std::fs::rename(&place, &old).unwrap();
        }
        std::fs::rename(&staged, &place).unwrap();
        if old.exists() {
            std::fs::remove_dir_all(&old).unwrap();
        }
        // What the package no longer needs.
        if package % 7 == run % 7 {
            std::fs::remove_dir_all(&place).unwrap();
        }
        std::fs::write(modules.join(".lock.tmp"), package.to_string()).unwrap();
        std::fs::rename(modules.join(".lock.tmp"), modules.join(".lock.json")).unwrap();
    }
}

/// Runs `work` while a new client follows the folder, and returns its picture once it equals the disk, with the
/// number of named paths and the time that the last change took to arrive.
async fn follow(
    server: &TestServer,
    root: &Path,
    work: impl FnOnce() + Send + 'static,
) -> (Picture, usize, Duration) {
    let mut client: Peer = server.connect().await;
    watch(&mut client, "w", root).await;
    let before = Picture::of(root);
    let mut picture = before.clone();
    let is_done = Arc::new(AtomicBool::new(false));
    let (done, end) = (is_done.clone(), root.join("end"));
    let worker = tokio::task::spawn_blocking(move || {
        work();
        done.store(true, Ordering::SeqCst);
        // Leads to a notification that finds the flag set.
        std::fs::write(end, format!("{:?}", Instant::now())).unwrap();
        Instant::now()
    });
    let mut named = 0;
    while !is_done.load(Ordering::SeqCst) {
        let params = client.expect("fs/changed").await;
        named += paths_of(&params).len();
        picture.apply(&paths_of(&params), params["overflow"] == true);
    }
    let done_at = worker.await.unwrap();
    let disk = Picture::of(root);
    // The control: a picture that is not kept is not right.
    assert!(before.difference(&disk).is_some());
    while picture.difference(&disk).is_some() {
        let params = client.expect("fs/changed").await;
        named += paths_of(&params).len();
        picture.apply(&paths_of(&params), params["overflow"] == true);
    }
    (picture, named, done_at.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_picture_is_right_after_a_checkout_and_an_installation() {
    let files = setting("SOAK_WATCH_FILES", 600);
    let env = environment().await;
    let root = env.workspace();
    make_repository(&root, files);
    let server = env.start();
    for run in 0..setting("SOAK_WATCH_RUNS", 3) {
        let at = root.clone();
        let work = move || {
            git(&at, &["checkout", "-q", if run % 2 == 0 { "main" } else { "other" }]);
            install(&at.join("node_modules"), files / 100, run);
        };
        let (picture, named, latency) = follow(&server, &root, work).await;
        println!("run {run}: {named} paths, {} overflows, {latency:?}", picture.overflows);
    }
    let seconds = setting("SOAK_WATCH_IDLE_SECONDS", 0);
    if seconds > 0 {
        let mut client = server.connect().await;
        watch(&mut client, "idle", &root).await;
        // tidy: sleep The end of the last run is not measured.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = cpu_time();
        // tidy: sleep What costs processor time meanwhile is measured.
        tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
        let used = cpu_time().saturating_sub(before);
        println!("idle for {seconds} s: {used:?} of processor time");
        assert!(used <= Duration::from_millis(10), "{used:?}");
        let ended = client.call("fs/unwatch", json!({ "watchId": "idle" })).await;
        assert_eq!(ended, json!({}));
    }
}

/// More than is named, and than the kernel keeps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_files_is_reported_whole() {
    let files = setting("SOAK_WATCH_FLOOD", 20_000);
    let env = environment().await;
    let root = env.workspace();
    let server = env.start();
    let folder = root.join("flood");
    let work = move || {
        std::fs::create_dir(&folder).unwrap();
        for file in 0..files {
            std::fs::write(folder.join(file.to_string()), "").unwrap();
        }
    };
    let (picture, named, latency) = follow(&server, &root, work).await;
    println!("{files} files: {named} paths, {} overflows, {latency:?}", picture.overflows);
}

/// Processor time of this process, in steps of 10 ms (proc_pid_stat(5), fields 14 and 15).
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let ticks = after_name.split_whitespace().skip(11).take(2);
    Duration::from_millis(10 * ticks.map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>())
}
