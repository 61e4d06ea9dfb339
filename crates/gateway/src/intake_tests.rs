//! The memory for large bodies.

use super::*;

const MEGABYTES: u64 = 1 << 20;

fn come(megabytes: usize) -> usize {
    megabytes << 20
}

/// Whether memory is available immediately.
async fn has_room(place: &mut BodyReservation<'_>, announced: u64, come: usize) -> bool {
    let grown = tokio::time::timeout(Duration::from_millis(1), place.grow(announced, come)).await;
    grown.is_ok_and(|grown| grown.is_ok())
}

#[tokio::test(start_paused = true)]
async fn a_client_that_announces_and_sends_nothing_delays_only_itself() {
    let room = BodyMemory::default();
    let mut silent = Vec::new();
    for _ in 0..2 {
        let mut place = room.place("org-loud");
        assert!(has_room(&mut place, 100 * MEGABYTES, 0).await);
        silent.push(place);
    }
    assert!(!has_room(&mut room.place("org-loud"), 100 * MEGABYTES, 0).await);
    let mut small = room.place("org-loud");
    assert!(has_room(&mut small, 60_000, 60_000).await, "small ones need no room");
    let mut other = room.place("org-other");
    assert!(has_room(&mut other, 100 * MEGABYTES, come(100)).await);
    let error = room.place("org-loud").grow(100 * MEGABYTES, 0).await.unwrap_err();
    assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE, "and not for ever");
    drop(silent);
    assert!(has_room(&mut room.place("org-loud"), 100 * MEGABYTES, 0).await);
}

#[tokio::test(start_paused = true)]
async fn bodies_that_wait_for_each_other_time_out() {
    let room = BodyMemory::default();
    let names: Vec<String> = (0..4).map(|number| format!("org-{number}")).collect();
    let mut full = Vec::new();
    for name in &names {
        let mut place = room.place(name);
        place.grow(0, SHARE).await.unwrap();
        full.push(place);
    }
    let mut late = room.place("org-late");
    let error = late.grow(100 * MEGABYTES, come(1)).await.unwrap_err();
    assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE);
    full.pop();
    late.grow(100 * MEGABYTES, come(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_body_larger_than_the_share_takes_the_whole_share() {
    let room = BodyMemory::default();
    let mut huge = room.place("org-huge");
    huge.grow(u64::MAX, 2 * SHARE).await.unwrap();
    assert!(!has_room(&mut room.place("org-huge"), MEGABYTES, 0).await);
    drop(huge);
    assert!(has_room(&mut room.place("org-huge"), MEGABYTES, 0).await);
    // Unused shares are dropped.
    drop(room.share("org-next"));
    assert_eq!(room.shares.lock().unwrap().len(), 1);
}
