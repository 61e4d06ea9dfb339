//! Valid forms as clients send them, and invalid ones.

use proptest::prelude::*;

use super::*;

const BOUNDARY: &str = "d4f8c1aa";

fn part(headers: &str, content: &[u8]) -> Vec<u8> {
    let head = format!("--{BOUNDARY}\r\n{headers}\r\n\r\n");
    [head.as_bytes(), content, b"\r\n"].concat()
}

fn field(name: &str, value: &str) -> Vec<u8> {
    part(&format!("Content-Disposition: form-data; name=\"{name}\""), value.as_bytes())
}

fn file(name: &str, content: &[u8]) -> Vec<u8> {
    let headers = format!(
        "Content-Disposition: form-data; name=\"{name}\"; filename=\"a b.wav\"\r\n\
         Content-Type: application/octet-stream"
    );
    part(&headers, content)
}

fn form(parts: &[Vec<u8>]) -> Vec<u8> {
    let end = format!("--{BOUNDARY}--\r\n");
    [parts.concat(), end.into_bytes()].concat()
}

fn read(parts: &[Vec<u8>]) -> Result<Form, FormError> {
    Form::read(&form(parts), BOUNDARY)
}

fn wav(rate: u32, rate_said: u32, data_said: u32, data: usize) -> Vec<u8> {
    let mut bytes = b"RIFF\0\0\0\0WAVE".to_vec();
    bytes.extend(b"LIST\x03\0\0\0abc\0fmt \x10\0\0\0\x01\0\x01\0");
    bytes.extend(rate.to_le_bytes());
    bytes.extend(rate_said.to_le_bytes());
    bytes.extend(b"\x02\0\x10\0data");
    bytes.extend(data_said.to_le_bytes());
    bytes.resize(bytes.len() + data, 7);
    bytes
}

#[test]
fn a_transcription() {
    let sound = wav(16_000, 32_000, 80_000, 80_000);
    let body = form(&[
        field("model", "whisper-1"),
        field("response_format", "verbose_json"),
        field("stream", "true"),
        field("timestamp_granularities[]", "word"),
        field("prompt", "Héllo"),
        file("file", &sound),
    ]);
    let read = Form::read(&body, BOUNDARY).unwrap();
    let model = read.model.unwrap();
    assert_eq!((model.text.as_str(), model.span.bytes_in(&body)), ("whisper-1", &b"whisper-1"[..]));
    assert_eq!(read.response_format.unwrap().text, "verbose_json");
    assert!(read.stream);
    assert_eq!((read.prompt_chars, read.n), (5, None));
    let [file] = &read.files[..] else { panic!() };
    assert_eq!((file.name.as_str(), file.length(), file.duration_ms), ("file", sound.len(), 2500));
    assert_eq!(file.span.bytes_in(&body), sound);
}

#[test]
fn an_image_edit() {
    let parts = [
        field("model", "image-1"),
        field("n", "3"),
        field("background", "transparent"),
        field("output_format", "png"),
        file("image[]", b"\x89PNG"),
        file("image[]", b""),
        file("mask", b"\r\n--d4f8c1a\r\n"),
    ];
    let read = read(&parts).unwrap();
    assert_eq!(read.n, Some(3));
    assert_eq!(read.background.unwrap().text, "transparent");
    assert_eq!(read.output_format.unwrap().text, "png");
    let files: Vec<_> = read.files.iter().map(|f| (f.name.as_str(), f.length())).collect();
    assert_eq!(files, [("image[]", 4), ("image[]", 0), ("mask", 13)]);
}

#[test]
fn durations() {
    let check = |content: Vec<u8>, expect: u64| {
        assert_eq!(read(&[file("file", &content)]).unwrap().files[0].duration_ms, expect);
    };
    check(wav(16_000, 32_000, 96_001, 96_001), 3001);
    check(wav(16_000, 32_000, u32::MAX, 64_000), 2000);
    check(wav(16_000, 32_000, 0, 64_000), 2000);
    check(wav(16_000, 32_000, 64_000, 32_000), 1000);
    check(wav(16_000, 32_000, 100, 100), 1000);
    // A rate that contradicts the other fields is ignored, and the length in bytes counts.
    let lie = wav(16_000, 4_000_000_000, 160_000, 160_000);
    let length = lie.len() as u64;
    check(lie, (length * 1000).div_ceil(16_000));
    check(wav(16_000, 0, 16_000, 16_000), 1004);
    check(vec![0; 40_000], 2500);
    check(vec![], 1000);
    check(b"RIFF\0\0\0\0WAVEdata\x01\0\0\0x".to_vec(), 1000);
    check(b"RIFF\0\0\0\0WAVEfmt \x02\0\0\0\x01\0".to_vec(), 1000);
}

#[test]
fn ambiguous_forms_are_refused() {
    let refused = |parts: &[Vec<u8>]| assert!(read(parts).is_err(), "{:?}", read(parts));
    let twice = [field("model", "a"), field("model", "b")];
    assert_eq!(read(&twice), Err(FormError::Duplicate { name: "model" }));
    let two = [file("file", b"a"), file("file", b"b")];
    assert_eq!(read(&two), Err(FormError::Duplicate { name: "file" }));
    refused(&[file("model", b"a")]);
    for headers in [
        "Content-Disposition: form-data; name=\"model\"; name=\"x\"",
        "Content-Disposition: form-data; name=\"model\"\r\nContent-Disposition: form-data; name=\"x\"",
        "Content-Disposition: form-data; name=\"x\"; filename=\"a\\\"; name=\"model\"",
        "Content-Disposition: form-data; name=\"mo\\del\"",
        "Content-Disposition: form-data; name*=utf-8''model",
        "Content-Disposition: form-data; filename=\"a\"",
        "Content-Disposition: attachment; name=\"model\"",
        "Content-Disposition: form-data;\r\n name=\"model\"",
        "Content-Disposition : form-data; name=\"model\"",
        "Content-Disposition: form-data; name=\"model\"\nX: y",
        "Content-Disposition: form-data; name=\"model\"\r\nContent-Transfer-Encoding: base64",
        "Content-Disposition: form-data; name=\"model\"\r\nContent-Type: text/plain; charset=utf-16",
        "Content-Disposition: form-data; name=\"_charset_\"",
        "Content-Type: text/plain",
        "",
    ] {
        refused(&[part(headers, b"a")]);
    }
    for headers in [
        "content-disposition:form-data;name=model",
        "Content-Disposition: Form-Data; NAME=\"model\"\r\nContent-Type: text/plain; charset=UTF-8",
    ] {
        assert_eq!(read(&[part(headers, b"a")]).unwrap().model.unwrap().text, "a");
    }
    let windows = "Content-Disposition: form-data; name=\"file\"; filename=\"C:\\dir\\a\\\\\"";
    assert_eq!(read(&[part(windows, b"a")]).unwrap().files.len(), 1);
}

#[test]
fn bad_values_are_refused() {
    for n in ["0", "-1", "+1", " 1", "1.0", "", "1001", "one", "99999999999"] {
        assert_eq!(read(&[field("n", n)]).unwrap_err().param(), Some("n"), "{n}");
    }
    assert_eq!(read(&[field("stream", "1")]).unwrap_err().param(), Some("stream"));
    assert!(!read(&[field("stream", "False")]).unwrap().stream);
    assert_eq!(read(&[field("model", &"x".repeat(2000))]).unwrap_err().param(), Some("model"));
    let bytes = part("Content-Disposition: form-data; name=\"model\"", b"\xff");
    assert_eq!(read(&[bytes]).unwrap_err().param(), Some("model"));
}

#[test]
fn broken_forms_are_refused() {
    let good = form(&[field("model", "a")]);
    assert!(Form::read(&good, BOUNDARY).is_ok());
    assert!(Form::read(&good[..good.len() - 2], BOUNDARY).is_ok());
    for cut in 0..good.len() - 2 {
        assert!(Form::read(&good[..cut], BOUNDARY).is_err(), "{cut}");
    }
    let with = |before: &str, after: &str| [before.as_bytes(), &good, after.as_bytes()].concat();
    for body in [with("preamble\r\n", ""), with("\r\n", ""), with("", "epilogue"), with("", "\r\n")]
    {
        assert!(Form::read(&body, BOUNDARY).is_err());
    }
    let longer = field("model", &format!("a\r\n--{BOUNDARY}x"));
    assert!(read(&[longer]).is_err());
    let within = field("x", &format!("--{BOUNDARY}\r\n"));
    assert!(read(&[within]).is_err());
    let bare = String::from_utf8(good).unwrap().replace("\r\n", "\n");
    assert!(Form::read(bare.as_bytes(), BOUNDARY).is_err());
    let many = vec![field("x", "y"); MAX_PARTS];
    assert!(read(&many).is_ok());
    let many = vec![field("x", "y"); MAX_PARTS + 1];
    assert!(read(&many).is_err());
    let long = format!("X: {}", "y".repeat(MAX_HEAD));
    assert!(read(&[part(&long, b"a")]).is_err());
}

#[test]
fn boundaries() {
    let check = |text: &str, expect: Result<Option<&str>, FormError>| {
        assert_eq!(boundary(text), expect, "{text}");
    };
    check("multipart/form-data; boundary=abc", Ok(Some("abc")));
    check("Multipart/Form-Data ; charset=utf-8; Boundary=\"a b\"", Err(FormError::Boundary));
    check("multipart/form-data; boundary=\"a=b?\"", Ok(Some("a=b?")));
    check("multipart/form-data; boundary=a; boundary=b", Err(FormError::Boundary));
    check("multipart/form-data", Err(FormError::Boundary));
    check("multipart/form-data; boundary=", Err(FormError::Boundary));
    check(&format!("multipart/form-data; boundary={}", "a".repeat(71)), Err(FormError::Boundary));
    check("application/json", Ok(None));
}

proptest! {
    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), whole in any::<bool>()) {
        let body = if whole { form(&[part(&String::from_utf8_lossy(&bytes), &bytes)]) } else { bytes };
        let _ = Form::read(&body, BOUNDARY);
    }

    #[test]
    fn part_contents_round_trip(
        contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..5),
        model in "[a-z0-9.-]{1,20}",
    ) {
        let mut parts: Vec<_> = contents.iter().map(|content| file("image[]", content)).collect();
        parts.push(field("model", &model));
        let body = form(&parts);
        let read = Form::read(&body, BOUNDARY).unwrap();
        prop_assert_eq!(read.model.unwrap().text, model);
        let found: Vec<_> = read.files.iter().map(|file| file.span.bytes_in(&body).to_vec()).collect();
        prop_assert_eq!(found, contents);
    }
}
