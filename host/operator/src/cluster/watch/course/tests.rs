use super::*;

fn course() -> Course {
    Course::new(WatchOptions {
        seed: 7,
        ..WatchOptions::default()
    })
}

fn following(version: &str) -> Course {
    let mut course = course();
    course.listed(version);
    course
}

fn gone() -> End {
    End::Refused(RequestError::Gone("too old".into()))
}

fn server(code: u16) -> End {
    End::Refused(RequestError::Server {
        code,
        retry_after: None,
        message: "m".into(),
    })
}

#[test]
fn a_watch_begins_with_a_streamed_list_and_follows_from_its_version() {
    let mut course = course();
    assert!(course.is_first());
    assert_eq!(course.attempt(), Attempt::Stream);
    course.listed("10");
    assert!(!course.is_first());
    course.told("12");
    assert_eq!(course.ended(End::Closed), (None, Duration::ZERO));
    assert_eq!(course.attempt(), Attempt::Follow("12".into()));
}

#[test]
fn a_server_without_streamed_lists_is_asked_for_pages_from_then_on() {
    let mut course = course();
    assert_eq!(
        course.ended(End::Refused(RequestError::Invalid("forbidden".into()))),
        (None, Duration::ZERO)
    );
    assert_eq!(course.attempt(), Attempt::Pages);
    course.listed("10");
    assert_eq!(
        course.ended(End::Listed),
        (Some(KindState::Active), Duration::ZERO)
    );
    assert_eq!(course.attempt(), Attempt::Follow("10".into()));
    course.ended(gone());
    assert_eq!(course.attempt(), Attempt::Pages);
}

#[test]
fn a_streamed_list_that_never_comes_to_its_end_is_replaced_by_pages_once() {
    for end in [End::Closed, End::Silent] {
        let mut course = course();
        let (state, wait) = course.ended(end);
        assert_eq!(state, None);
        assert!(!wait.is_zero());
        assert_eq!(course.attempt(), Attempt::Pages);
        course.listed("1");
        course.ended(gone());
        assert_eq!(course.attempt(), Attempt::Stream);
    }
}

#[test]
fn too_old_means_a_list_and_the_delay_doubles_to_its_cap_until_the_watch_tells_something() {
    let mut course = following("10");
    let mut before = Duration::ZERO;
    for n in 0..10 {
        let (state, wait) = course.ended(gone());
        assert_eq!(state, None);
        let full = Duration::from_millis(200 * (1 << n)).min(Duration::from_secs(10));
        assert!(wait <= full && wait >= full.mul_f64(0.75), "{n}: {wait:?}");
        assert!(n > 5 || wait > before, "{n}: {wait:?}");
        assert_eq!(course.attempt(), Attempt::Stream);
        course.listed("11");
        before = wait;
    }
    course.told("12");
    assert!(course.ended(gone()).1 <= Duration::from_millis(200));
}

#[test]
fn the_same_seed_gives_the_same_delays_and_another_one_others() {
    let delays = |seed| {
        let mut course = Course::new(WatchOptions {
            seed,
            ..WatchOptions::default()
        });
        (0..8)
            .map(|_| (course.ended(server(500)).1, course.lifetime()))
            .collect::<Vec<_>>()
    };
    assert_eq!(delays(1), delays(1));
    assert_ne!(delays(1), delays(2));
    assert!(
        delays(3)
            .iter()
            .all(|(_, lifetime)| (256..=320).contains(lifetime)),
        "{:?}",
        delays(3)
    );
}

#[test]
fn silence_and_cuts_keep_the_place() {
    let mut course = following("10");
    assert_eq!(
        course.ended(End::Silent),
        (None, Duration::from_millis(200))
    );
    assert_eq!(
        course.ended(End::Cut("reset".into())).0,
        Some(KindState::Unreachable("reset".into()))
    );
    let refused = End::Refused(RequestError::Unreachable("refused".into()));
    for _ in 0..20 {
        assert_eq!(
            course.ended(refused.clone()).0,
            Some(KindState::Unreachable("unreachable: refused".into()))
        );
    }
    assert_eq!(course.attempt(), Attempt::Follow("10".into()));
}

#[test]
fn a_server_that_only_hangs_up_is_not_asked_in_a_tight_loop() {
    let mut course = following("10");
    assert_eq!(course.ended(End::Closed).1, Duration::ZERO);
    assert!(course.ended(End::Closed).1 >= Duration::from_millis(200));
    course.told("11");
    assert_eq!(course.ended(End::Closed).1, Duration::ZERO);
}

#[test]
fn a_place_refused_three_times_in_a_row_is_given_up() {
    let mut course = following("10");
    for _ in 0..2 {
        course.ended(server(504));
        assert_eq!(course.attempt(), Attempt::Follow("10".into()));
    }
    course.ended(server(504));
    assert_eq!(course.attempt(), Attempt::Stream);
    let mut course = following("10");
    for n in 0..10 {
        course.ended(server(504));
        course.told(&n.to_string());
    }
    assert_eq!(course.attempt(), Attempt::Follow("9".into()), "in a row");
}

#[test]
fn a_missing_kind_is_polled_and_is_gone_only_if_it_was_there() {
    let absent = || End::Refused(RequestError::NotServed("no".into()));
    let mut course = course();
    for _ in 0..10 {
        let (state, wait) = course.ended(absent());
        assert_eq!(state, Some(KindState::Absent));
        assert!(
            wait <= Duration::from_secs(3) && wait >= Duration::from_millis(2250),
            "no backoff"
        );
        assert_eq!(course.attempt(), Attempt::Stream);
    }
    course.listed("10");
    for _ in 0..2 {
        assert_eq!(course.ended(absent()).0, Some(KindState::Gone));
        assert_eq!(course.attempt(), Attempt::Stream);
        assert!(course.is_first(), "what comes then is new");
    }
}

#[test]
fn missing_rights_are_shown_and_tried_again_from_the_same_place() {
    let mut course = following("10");
    let (state, wait) = course.ended(End::Refused(RequestError::Forbidden("no right".into())));
    assert_eq!(state, Some(KindState::Forbidden("no right".into())));
    assert!(!wait.is_zero());
    assert_eq!(course.attempt(), Attempt::Follow("10".into()));
}

#[test]
fn the_servers_wish_to_be_left_alone_is_honoured_up_to_a_minute() {
    for (wish, want) in [(5, 5), (3600, 60)] {
        let retry_after = Some(Duration::from_secs(wish));
        let error = RequestError::Throttled {
            retry_after,
            message: "later".into(),
        };
        assert_eq!(
            following("1").ended(End::Refused(error)).1,
            Duration::from_secs(want)
        );
    }
}

#[test]
fn throttling_is_a_state_only_when_it_lasts() {
    let mut course = course();
    let throttled = || RequestError::Throttled {
        retry_after: None,
        message: "storage is (re)initializing".into(),
    };
    for n in 0..6 {
        let (state, wait) = course.ended(End::Refused(throttled()));
        assert_eq!(state.is_some(), n >= 3, "{n}");
        assert!(!wait.is_zero());
    }
}

#[test]
fn an_event_that_cannot_be_taken_leads_to_pages() {
    let mut course = following("10");
    assert_eq!(
        course.ended(End::Unreadable("too long".into())).0,
        Some(KindState::Unreachable("too long".into()))
    );
    assert_eq!(course.attempt(), Attempt::Pages);
    course.listed("20");
    assert_eq!(course.ended(End::Backwards).0, None);
    assert_eq!(course.attempt(), Attempt::Stream);
}

/// policy-server#287: what an object is called, or what an error says, becomes a metric's label.
#[test]
fn the_label_of_a_state_says_nothing_of_what_led_to_it() {
    let told = |words: &str| {
        [
            KindState::Forbidden(words.into()).name(),
            KindState::Unreachable(words.into()).name(),
        ]
    };
    assert_eq!(told("ns/job-7"), told("ns/job-8"));
    assert_eq!(told("ns/job-7"), ["forbidden", "unreachable"]);
}
