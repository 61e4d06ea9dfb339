//! A process that is killed while it installs leaves the old plugin or the new one, and the next
//! operation removes what it left behind.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{folder, home, marketplace, read, write};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const PLACE: &str = "PLUGINS_TEST_PLACE";
const KILLS: usize = 100;

/// The process that is killed: installs the plugin once. Does nothing in an ordinary run.
#[tokio::test]
async fn child() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let market = read(&place.join("market"));
    home(&place.join("home"), &[]).install(&market, "one", None).await.unwrap();
}

fn start(place: &Path) -> std::process::Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "interrupted::child", "--nocapture"]).env(PLACE, place);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn change(plugin: &Path, generation: usize) {
    for file in 0..40 {
        write(&plugin.join(format!("data/{file}")), format!("{generation}").repeat(500));
    }
    let manifest = format!(r#"{{"name": "one", "version": "1.0.{generation}"}}"#);
    write(&plugin.join(".claude-plugin/plugin.json"), manifest);
}

#[tokio::test]
async fn a_killed_install_leaves_the_old_or_the_new_state() {
    let top = folder();
    let plugin = marketplace(&top.path().join("market"));
    let home = home(&top.path().join("home"), &[]);
    change(&plugin, 0);
    let started = Instant::now();
    assert!(start(top.path()).wait().unwrap().success());
    let whole = started.elapsed();
    let mut random = StdRng::seed_from_u64(19);
    let mut old = home.installed().unwrap().all.remove(0);
    let (mut stayed, mut replaced) = (0, 0);
    for generation in 1..=KILLS {
        change(&plugin, generation);
        let mut child = start(top.path());
        let after = random.random_range(0.0..2.0);
        // tidy: sleep because the point of the kill is a random time.
        std::thread::sleep(Duration::from_secs_f64(whole.as_secs_f64() * after));
        let _ = child.kill();
        child.wait().unwrap();
        let [now] = <[_; 1]>::try_from(home.installed().unwrap().all).unwrap();
        assert!(home.verify(&now).unwrap().is_empty(), "generation {generation}");
        let new = format!("1.0.{generation}");
        if now.version.as_deref() == Some(&new) {
            replaced += 1;
        } else {
            assert_eq!(now, old, "generation {generation}");
            stayed += 1;
        }
        old = now;
    }
    println!("{stayed} old, {replaced} new");
    // The next operation leaves nothing but the installed plugin.
    let last = home.install(&read(&top.path().join("market")), "one", None).await.unwrap();
    let versions = std::fs::read_dir(last.root.parent().unwrap()).unwrap().count();
    let staging = std::fs::read_dir(top.path().join("home/.staging")).unwrap().count();
    assert_eq!((versions, staging), (1, 0));
}
