use super::*;
use proptest::prelude::*;

fn note(reason: &str, text: &str) -> Note {
    Note {
        type_: EventType::Normal,
        reason: reason.into(),
        note: text.into(),
    }
}

fn texts(notes: Vec<Note>) -> Vec<String> {
    notes.into_iter().map(|note| note.note).collect()
}

const START: Time = Time(1_000_000_000);

fn at(seconds: u64) -> Time {
    START.after(Span::from_secs(seconds))
}

/// clever-kubernetes-operator#175
#[test]
fn the_same_is_told_once_in_ten_minutes_and_then_says_how_often_it_was_not() {
    let mut telling = Telling::default();
    let mut say = |second: u64| texts(telling.admit("a", vec![note("R", "text")], at(second)));
    assert_eq!(say(0), ["text"]);
    for second in 1..600 {
        assert_eq!(say(second), [] as [&str; 0], "{second}");
    }
    assert_eq!(
        say(600),
        ["text (599 Events before this one were withheld)"]
    );
    assert_eq!(telling.withheld(), 599);
}

#[test]
fn a_change_is_told_at_once_there_and_back() {
    let mut telling = Telling::default();
    for (second, text) in [(0, "a"), (1, "b"), (2, "a"), (3, "b")] {
        assert_eq!(
            texts(telling.admit("o", vec![note("R", text)], at(second))),
            [text]
        );
    }
    // Part of a batch that is the same stays untold.
    let both = || vec![note("R", "b"), note("S", "new")];
    assert_eq!(
        texts(telling.admit("o", both(), at(4))),
        ["new (1 Event before this one was withheld)"]
    );
    assert_eq!(texts(telling.admit("o", both(), at(5))), [] as [&str; 0]);
    // The same words as a warning are another note, and another object has its own.
    let warning = Note {
        type_: EventType::Warning,
        ..note("R", "b")
    };
    assert_eq!(telling.admit("o", vec![warning], at(6)).len(), 1);
    assert_eq!(telling.admit("p", both(), at(6)).len(), 2);
}

/// kubernetes-retired/service-catalog#2302
#[test]
fn an_object_that_always_says_something_new_tells_ten_and_then_one_in_thirty_seconds() {
    let mut telling = Telling::default();
    let mut told = Vec::new();
    for second in 0..120 {
        let text = format!("count {second}");
        if !telling
            .admit("a", vec![note("R", &text)], at(second))
            .is_empty()
        {
            told.push(second);
        }
    }
    assert_eq!(told, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 30, 60, 90]);
}

/// kubernetes#98175
#[test]
fn a_note_is_cut_at_a_character_and_keeps_what_was_withheld() {
    let mut telling = Telling::default();
    let long = "ä𝄞".repeat(400);
    let first = telling.admit("a", vec![note("R", &long), note("R", &long)], START);
    assert_eq!(first.len(), 1);
    assert!(first[0].note.len() <= MAX_MESSAGE && long.starts_with(&first[0].note));
    let other = format!("x{long}");
    let second = telling.admit("a", vec![note("R", &other)], START);
    let text = &second[0].note;
    assert!(
        text.len() <= MAX_MESSAGE && text.ends_with(" (1 Event before this one was withheld)"),
        "{text}"
    );
}

#[test]
fn an_event_that_got_lost_is_said_by_the_next() {
    let mut telling = Telling::default();
    telling.admit("a", vec![note("R", "1")], START);
    telling.lost("a");
    assert_eq!(
        texts(telling.admit("a", vec![note("R", "2")], START)),
        ["2 (1 Event before this one was withheld)"]
    );
}

#[test]
fn a_clock_that_is_set_back_silences_nobody_for_long() {
    let mut telling = Telling::default();
    for n in 0..20 {
        telling.admit("a", vec![note("R", &n.to_string())], at(86_400));
    }
    assert_eq!(
        telling.admit("a", vec![note("R", "19")], at(30)).len(),
        0,
        "the bucket is as empty as it was"
    );
    assert_eq!(telling.admit("a", vec![note("R", "19")], at(60)).len(), 1);
}

#[derive(Clone, Debug)]
struct Batch {
    object: u8,
    notes: Vec<u8>,
    later: u64,
}

fn batch() -> impl Strategy<Value = Batch> {
    let notes = proptest::collection::vec(0..6u8, 0..5);
    (0..4u8, notes, prop_oneof![0..5_000u64, 0..700_000u64]).prop_map(|(object, notes, later)| {
        Batch {
            object,
            notes,
            later,
        }
    })
}

/// How many a note says were withheld.
fn said(note: &Note) -> u64 {
    let Some((_, rest)) = note.note.rsplit_once(" (") else {
        return 0;
    };
    rest.split(' ').next().unwrap().parse().unwrap()
}

proptest! {
    #[test]
    fn no_object_tells_more_than_its_bucket_holds_and_every_event_is_told_or_counted(
        batches in proptest::collection::vec(batch(), 0..200)
    ) {
        let mut telling = Telling::default();
        let mut now = START;
        let mut told: BTreeMap<u8, Vec<Time>> = BTreeMap::new();
        let (mut offered, mut counted) = (0, 0);
        for Batch { object, notes, later } in batches {
            now = now.after(Span(later));
            offered += notes.len() as u64;
            let notes = notes.iter().map(|n| note("R", &format!("text {n}"))).collect();
            for note in telling.admit(&object.to_string(), notes, now) {
                counted += said(&note);
                told.entry(object).or_default().push(now);
            }
        }
        for times in told.values() {
            for (index, from) in times.iter().enumerate() {
                for (more, to) in times[index..].iter().enumerate() {
                    let allowed = u64::from(BURST) + from.until(*to).0 / REFILL.0;
                    prop_assert!((more as u64) < allowed, "{} in {} ms", more + 1, from.until(*to).0);
                }
            }
        }
        let told: u64 = told.values().map(|times| times.len() as u64).sum();
        prop_assert_eq!(told + telling.withheld(), offered);
        let pending: u64 = telling.objects.values().map(|told| u64::from(told.withheld)).sum();
        prop_assert_eq!(counted + pending, telling.withheld());
    }

    #[test]
    fn memory_is_bounded_and_the_one_that_speaks_is_remembered(
        objects in proptest::collection::vec((0..300u16, 0..2_000u64), 1..400), most in 1..40usize
    ) {
        let mut telling = Telling::new(most);
        let mut now = START;
        for (object, later) in objects {
            now = now.after(Span(later));
            let about = object.to_string();
            telling.admit(&about, vec![note("R", "text")], now);
            prop_assert!(telling.objects() <= most);
            prop_assert_eq!(telling.admit(&about, vec![note("R", "text")], now), vec![]);
        }
    }
}
