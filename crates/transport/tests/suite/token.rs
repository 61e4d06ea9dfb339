//! Signed tokens: which are refused and why, which are accepted, and that no small change of a
//! valid one is accepted.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac};
use proptest::prelude::*;
use sha2::{Sha256, Sha384, Sha512};
use transport::TokenFault::{
    self, Algorithm, Audience, Expired, Issuer, Malformed, NotYet, Signature,
};
use transport::{Claims, ErrorKind};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const NOW: i64 = 1_700_000_000;
const SKEW: u64 = 30;
const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;
const GOOD: &str = r#"{"iss":"editor","aud":"agentd","exp":1700000060}"#;

/// Requires an issuer and an audience, and allows half a minute of clock skew.
fn claims() -> Claims {
    Claims {
        issuer: Some("editor".to_owned()),
        audience: Some("agentd".to_owned()),
        max_clock_skew: SKEW,
    }
}

/// As `transport::verify`, with the fault of a refused token.
fn verify(token: &str, secret: &[u8], claims: &Claims, now: i64) -> Result<(), TokenFault> {
    transport::verify(token, secret, claims, now).map_err(|error| match error.kind() {
        ErrorKind::Token(fault) => fault,
        other => panic!("{other:?}: {error}"),
    })
}

fn check(token: &str) -> Result<(), TokenFault> {
    verify(token, SECRET, &claims(), NOW)
}

fn encode(part: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(part)
}

fn mac(text: &str, secret: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Signs any header and payload, whatever they contain.
fn sign_parts(header: &str, payload: &str) -> String {
    let text = format!("{header}.{payload}");
    let signature = encode(mac(&text, SECRET));
    format!("{text}.{signature}")
}

fn sign(header: impl AsRef<[u8]>, payload: impl AsRef<[u8]>) -> String {
    sign_parts(&encode(header), &encode(payload))
}

fn good() -> String {
    sign(HEADER, GOOD)
}

/// Returns a token of the valid claims, with `changes` in place of members of the same names.
fn claiming(changes: &str) -> String {
    let mut members = vec![
        ("iss", r#""editor""#.to_owned()),
        ("aud", r#""agentd""#.to_owned()),
        ("exp", "1700000060".to_owned()),
    ];
    for change in changes.split(";;").filter(|change| !change.is_empty()) {
        let (name, value) = change.split_once('=').unwrap();
        members.retain(|(found, _)| *found != name);
        if !value.is_empty() {
            members.push((name, value.to_owned()));
        }
    }
    let members: Vec<String> =
        members.iter().map(|(name, value)| format!(r#""{name}":{value}"#)).collect();
    sign(HEADER, format!("{{{}}}", members.join(",")))
}

#[test]
fn other_algorithms_and_critical_headers_are_refused() {
    for (header, expected) in [
        (r#"{"alg":"HS256"}"#, Ok(())),
        (r#"{"typ":"JWT","alg":"HS256"}"#, Ok(())),
        (r#"{"typ":"something","alg":"HS256"}"#, Ok(())),
        // Key hints in the token are ignored: the server's key decides.
        (r#"{"alg":"HS256","kid":"../../dev/null"}"#, Ok(())),
        (r#"{"alg":"HS256","jku":"https://evil.example/keys"}"#, Ok(())),
        (r#"{"alg":"HS256","x5u":"https://evil.example/cert"}"#, Ok(())),
        (r#"{"alg":"HS256","jwk":{"kty":"oct","k":"AAAA"}}"#, Ok(())),
        (r#"{"alg":"HS256","x5c":["AAAA"]}"#, Ok(())),
        (r#"{"alg":"none"}"#, Err(Algorithm)),
        (r#"{"alg":"None"}"#, Err(Algorithm)),
        (r#"{"alg":"NONE"}"#, Err(Algorithm)),
        (r#"{"alg":"nOnE"}"#, Err(Algorithm)),
        (r#"{"alg":""}"#, Err(Algorithm)),
        (r#"{"alg":"hs256"}"#, Err(Algorithm)),
        (r#"{"alg":"HS256 "}"#, Err(Algorithm)),
        (r#"{"alg":"HS256\u0000"}"#, Err(Algorithm)),
        (r#"{"alg":"HS2567"}"#, Err(Algorithm)),
        (r#"{"alg":"HS384"}"#, Err(Algorithm)),
        (r#"{"alg":"HS512"}"#, Err(Algorithm)),
        (r#"{"alg":"RS256"}"#, Err(Algorithm)),
        (r#"{"alg":"PS256"}"#, Err(Algorithm)),
        (r#"{"alg":"ES256"}"#, Err(Algorithm)),
        (r#"{"alg":"EdDSA"}"#, Err(Algorithm)),
        (r#"{"alg":"dir","enc":"A256GCM"}"#, Err(Algorithm)),
        (r#"{"alg":"HS256","crit":["exp"],"exp":1}"#, Err(Algorithm)),
        (r#"{"alg":"HS256","crit":[]}"#, Err(Algorithm)),
        (r#"{"alg":"HS256","crit":null}"#, Err(Algorithm)),
        (r#"{"alg":"HS256","b64":false,"crit":["b64"]}"#, Err(Algorithm)),
        (r#"{"alg":"HS256","b64":false}"#, Err(Algorithm)),
        (r#"{"alg":"HS256","b64":true}"#, Err(Algorithm)),
        (r#"{"alg":"HS256","b64":null}"#, Err(Algorithm)),
        (r#"{}"#, Err(Malformed)),
        (r#"{"typ":"JWT"}"#, Err(Malformed)),
        (r#"{"ALG":"HS256"}"#, Err(Malformed)),
        (r#"{"alg":null}"#, Err(Malformed)),
        (r#"{"alg":256}"#, Err(Malformed)),
        (r#"{"alg":["HS256"]}"#, Err(Malformed)),
        (r#"{"alg":"HS256","alg":"HS256"}"#, Err(Malformed)),
        (r#"{"alg":"HS256","alg":"none"}"#, Err(Malformed)),
        (r#"{"alg":"none","alg":"HS256"}"#, Err(Malformed)),
        (r#"{"alg":"HS256","a\u006cg":"none"}"#, Err(Malformed)),
        (r#"{"alg":"HS256"}{}"#, Err(Malformed)),
        (r#"{"alg":"HS256""#, Err(Malformed)),
        (r#"{'alg':'HS256'}"#, Err(Malformed)),
        (r#"["HS256"]"#, Err(Malformed)),
        (r#"["HS256",null,null]"#, Err(Malformed)),
        (r#""HS256""#, Err(Malformed)),
        ("null", Err(Malformed)),
        ("", Err(Malformed)),
        ("\u{feff}{\"alg\":\"HS256\"}", Err(Malformed)),
    ] {
        assert_eq!(check(&sign(header, GOOD)), expected, "{header}");
    }
}

#[test]
fn wrong_signatures_are_refused() {
    let text = format!("{}.{}", encode(HEADER), encode(GOOD));
    let signature = mac(&text, SECRET);
    let with = |signature: &[u8]| format!("{text}.{}", encode(signature));
    assert_eq!(check(&with(&signature)), Ok(()));
    let mut longer = signature.clone();
    longer.push(0);
    let mut h384 = Hmac::<Sha384>::new_from_slice(SECRET).unwrap();
    h384.update(text.as_bytes());
    let mut h512 = Hmac::<Sha512>::new_from_slice(SECRET).unwrap();
    h512.update(text.as_bytes());
    let trimmed = &SECRET[..SECRET.len() - 1];
    let newline = [SECRET, b"\n"].concat();
    for (what, wrong) in [
        ("none", with(b"")),
        ("half", with(&signature[..16])),
        ("all but the last byte", with(&signature[..31])),
        ("a byte more", with(&longer)),
        ("zeros", with(&[0; 32])),
        ("of another secret", with(&mac(&text, b"another secret of thirty two byte"))),
        ("of an empty secret", with(&mac(&text, b""))),
        ("of most of the secret", with(&mac(&text, trimmed))),
        ("of the secret and a newline", with(&mac(&text, &newline))),
        ("HS384", with(&h384.finalize().into_bytes())),
        ("HS512", with(&h512.finalize().into_bytes())),
        ("the secret itself", with(SECRET)),
        ("of the header alone", with(&mac(&encode(HEADER), SECRET))),
        ("of the parts without the dot", with(&mac(&text.replace('.', ""), SECRET))),
        ("of the JSON", with(&mac(&format!("{HEADER}.{GOOD}"), SECRET))),
    ] {
        assert_eq!(check(&wrong), Err(Signature), "{what}");
    }
    let other = sign(HEADER, r#"{"iss":"editor","aud":"agentd","exp":1700009999}"#);
    let signature_of_other = other.rsplit_once('.').unwrap().1;
    assert_eq!(check(&format!("{text}.{signature_of_other}")), Err(Signature));
    let expired = format!("{}.{}", encode(HEADER), encode(r#"{"exp":1}"#));
    let unsigned = format!("{expired}.{}", encode([0; 32]));
    assert_eq!(check(&unsigned), Err(Signature), "claims are not read before the signature");
}

#[test]
fn malformed_tokens_are_refused() {
    let token = good();
    let parts: Vec<&str> = token.split('.').collect();
    let [header, payload, signature] = parts[..] else { panic!("three parts") };
    let standard = STANDARD.encode(mac(&format!("{header}.{payload}"), SECRET));
    let padded = format!("{header}.{}", URL_SAFE.encode(GOOD));
    for (what, wrong) in [
        ("nothing", String::new()),
        ("a word", "token".to_owned()),
        ("a dot", ".".to_owned()),
        ("two dots", "..".to_owned()),
        ("three dots", "...".to_owned()),
        ("two parts", format!("{header}.{payload}")),
        ("no header", format!(".{payload}.{signature}")),
        ("no payload", sign_parts(header, "")),
        ("a dot before", format!(".{token}")),
        ("a dot behind", format!("{token}.")),
        ("four parts", format!("{token}.{signature}")),
        ("four signed parts", sign_parts(header, &format!("{payload}.{payload}"))),
        ("five parts", format!("{header}.{payload}.{payload}.{payload}.{signature}")),
        ("another separator", token.replace('.', ":")),
        ("padding at the signature", format!("{token}=")),
        ("padding at the payload", sign_parts(header, &format!("{payload}="))),
        ("padding at the header", sign_parts(&format!("{header}="), payload)),
        ("padding where it belongs", format!("{padded}.{}=", encode(mac(&padded, SECRET)))),
        ("standard base64", format!("{header}.{payload}.{}", standard.trim_end_matches('='))),
        ("hexadecimal", format!("{header}.{payload}.0x{signature}")),
        ("a space before", format!(" {token}")),
        ("a space behind", format!("{token} ")),
        ("a newline behind", format!("{token}\n")),
        ("a space within", token.replace('.', ". ")),
        ("a tab in the payload", sign_parts(header, &format!("\t{payload}"))),
        ("NUL behind", format!("{token}\0")),
        ("its scheme", format!("Bearer {token}")),
        ("quotes", format!("\"{token}\"")),
        ("something else than ASCII", format!("{token}ä")),
        ("JSON", format!(r#"{{"payload":"{payload}","protected":"{header}"}}"#)),
        ("a payload of bytes", sign(HEADER, b"\xff\xfe\xfd")),
        ("a payload with a byte", sign(HEADER, b"{\"exp\":1700000060,\"iss\":\"\xff\"}")),
        ("a header of bytes", sign(b"\xff\xfe\xfd", GOOD)),
        ("UTF-16", sign(HEADER, "{\0\"\0e\0x\0p\0\"\0:\0\x31\0}\0")),
    ] {
        // The two alphabets differ only in `+` and `/`.
        let differs = what != "standard base64" || standard.contains(['+', '/']);
        assert!(!differs || check(&wrong) == Err(Malformed), "{what}: {:?}", check(&wrong));
    }
    let differing = (0..100).map(|number| claiming(&format!("jti={number}")));
    let standard = differing.map(|token| {
        let (text, _) = token.rsplit_once('.').unwrap();
        STANDARD.encode(mac(text, SECRET)).trim_end_matches('=').to_owned()
    });
    assert!(standard.filter(|signature| signature.contains(['+', '/'])).count() > 50);
}

#[test]
fn the_other_alphabet_is_refused() {
    let refused = (0..64).filter(|number| {
        let token = claiming(&format!("jti={number}"));
        let other = token.replace('-', "+").replace('_', "/");
        assert_eq!(check(&token), Ok(()));
        if other == token {
            return false;
        }
        assert!(check(&other).is_err(), "{other}");
        true
    });
    assert!(refused.count() > 32);
}

#[test]
fn claims_of_time_are_checked() {
    let edge = |at: i64| at.to_string();
    let (now, skew) = (NOW, i64::try_from(SKEW).unwrap());
    for (changes, expected) in [
        (String::new(), Ok(())),
        ("exp=".into(), Err(Expired)),
        ("exp=null".into(), Err(Expired)),
        ("exp=0".into(), Err(Expired)),
        ("exp=-1".into(), Err(Expired)),
        ("exp=-0".into(), Err(Expired)),
        ("exp=-1e308".into(), Err(Expired)),
        ("exp=1".into(), Err(Expired)),
        // Valid while the clock is before the expiry plus the allowed skew.
        (format!("exp={}", edge(now - skew)), Err(Expired)),
        (format!("exp={}", edge(now - skew - 1)), Err(Expired)),
        (format!("exp={}", edge(now - skew + 1)), Ok(())),
        (format!("exp={}.5", edge(now - skew)), Ok(())),
        (format!("exp={}.0", edge(now - skew)), Err(Expired)),
        ("exp=1.70000006e9".into(), Ok(())),
        ("exp=9007199254740993".into(), Ok(())),
        ("exp=18446744073709551616".into(), Ok(())),
        ("exp=1e308".into(), Ok(())),
        ("exp=1e309".into(), Err(Malformed)),
        ("exp=1e999999".into(), Err(Malformed)),
        ("exp=NaN".into(), Err(Malformed)),
        ("exp=Infinity".into(), Err(Malformed)),
        ("exp=+1700000060".into(), Err(Malformed)),
        ("exp=01700000060".into(), Err(Malformed)),
        ("exp=0x7fffffff".into(), Err(Malformed)),
        (r#"exp="1700000060""#.into(), Err(Malformed)),
        ("exp=true".into(), Err(Malformed)),
        ("exp=[1700000060]".into(), Err(Malformed)),
        (r#"exp={"n":1700000060}"#.into(), Err(Malformed)),
        ("nbf=null".into(), Ok(())),
        ("nbf=0".into(), Ok(())),
        ("nbf=-1".into(), Ok(())),
        (format!("nbf={}", edge(now)), Ok(())),
        (format!("nbf={}", edge(now + skew)), Ok(())),
        (format!("nbf={}", edge(now + skew + 1)), Err(NotYet)),
        (format!("nbf={}.5", edge(now + skew)), Err(NotYet)),
        ("nbf=1e308".into(), Err(NotYet)),
        ("nbf=1e309".into(), Err(Malformed)),
        (r#"nbf="0""#.into(), Err(Malformed)),
        ("nbf=false".into(), Err(Malformed)),
        (r#"iat=99999999999"#.into(), Ok(())),
    ] {
        assert_eq!(check(&claiming(&changes)), expected, "{changes}");
    }
}

#[test]
fn the_configured_clock_skew_is_applied() {
    let at = |exp: i64, max_clock_skew: u64, now: i64| {
        let claims = Claims { max_clock_skew, ..Claims::default() };
        verify(&sign(HEADER, format!(r#"{{"exp":{exp}}}"#)), SECRET, &claims, now)
    };
    assert_eq!(at(100, 0, 99), Ok(()));
    assert_eq!(at(100, 0, 100), Err(Expired), "not on or after");
    assert_eq!(at(100, 1, 100), Ok(()));
    assert_eq!(at(100, 1, 101), Err(Expired));
    assert_eq!(at(100, u64::MAX, i64::MAX), Ok(()), "whoever says so");
    assert_eq!(at(100, 0, i64::MAX), Err(Expired));
    assert_eq!(at(100, 0, i64::MIN), Ok(()), "a clock that was never set");
}

#[test]
fn issuer_and_audience_are_checked() {
    for (changes, expected) in [
        ("iss=", Err(Issuer)),
        ("iss=null", Err(Issuer)),
        (r#"iss="""#, Err(Issuer)),
        (r#"iss="Editor""#, Err(Issuer)),
        (r#"iss="editor ""#, Err(Issuer)),
        (r#"iss="editor\u0000""#, Err(Issuer)),
        (r#"iss="editors""#, Err(Issuer)),
        (r#"iss="\u0065ditor""#, Ok(())),
        (r#"iss=["editor"]"#, Err(Malformed)),
        (r#"iss={"editor":1}"#, Err(Malformed)),
        ("iss=1", Err(Malformed)),
        ("iss=true", Err(Malformed)),
        ("aud=", Err(Audience)),
        ("aud=null", Err(Audience)),
        (r#"aud="""#, Err(Audience)),
        (r#"aud="agent""#, Err(Audience)),
        (r#"aud="agentd2""#, Err(Audience)),
        (r#"aud="AGENTD""#, Err(Audience)),
        (r#"aud="agentd other""#, Err(Audience)),
        (r#"aud="agentd,other""#, Err(Audience)),
        ("aud=[]", Err(Audience)),
        (r#"aud=["other"]"#, Err(Audience)),
        (r#"aud=["other","agent"]"#, Err(Audience)),
        (r#"aud=["agentd"]"#, Ok(())),
        (r#"aud=["other","agentd"]"#, Ok(())),
        (r#"aud=["agentd","agentd"]"#, Ok(())),
        (r#"aud=["agentd",1]"#, Err(Malformed)),
        (r#"aud=["agentd",null]"#, Err(Malformed)),
        (r#"aud=[["agentd"]]"#, Err(Malformed)),
        (r#"aud={"agentd":true}"#, Err(Malformed)),
        ("aud=1", Err(Malformed)),
        // The first violation is reported.
        (r#"exp=1;;iss="x";;aud="x""#, Err(Expired)),
        (r#"iss="x";;aud="x""#, Err(Issuer)),
    ] {
        assert_eq!(check(&claiming(changes)), expected, "{changes}");
    }
    let any = Claims { max_clock_skew: SKEW, ..Claims::default() };
    for changes in ["", "iss=;;aud=", r#"iss="x";;aud="x""#, r#"aud=["x","y"]"#] {
        assert_eq!(verify(&claiming(changes), SECRET, &any, NOW), Ok(()), "{changes}");
    }
    assert_eq!(verify(&claiming("exp="), SECRET, &any, NOW), Err(Expired));
}

#[test]
fn payloads_that_are_not_claims_are_refused() {
    let deep = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"iss":"editor","aud":"agentd","exp":1700000060,"x":{open}{close}}}"#)
    };
    let deep_audience = format!(r#"{{"exp":1700000060,"aud":{}"#, "[".repeat(100_000));
    for (payload, expected) in [
        ("", Malformed),
        (" ", Malformed),
        ("null", Malformed),
        ("true", Malformed),
        ("1700000060", Malformed),
        (r#""exp""#, Malformed),
        ("[]", Malformed),
        (r#"[1700000060,null,"editor","agentd"]"#, Malformed),
        (r#"[{"iss":"editor","aud":"agentd","exp":1700000060}]"#, Malformed),
        ("{", Malformed),
        ("{}", Expired),
        (r#"{"exp":1700000060,"exp":1700000060,"iss":"editor","aud":"agentd"}"#, Malformed),
        (r#"{"exp":1,"exp":1700000060,"iss":"editor","aud":"agentd"}"#, Malformed),
        (r#"{"exp":1700000060,"iss":"x","iss":"editor","aud":"agentd"}"#, Malformed),
        (r#"{"exp":1700000060,"iss":"editor","aud":"x","aud":"agentd"}"#, Malformed),
        (r#"{"exp":1700000060,"iss":"editor","aud":"agentd"}x"#, Malformed),
        (r#"{"exp":1700000060,"iss":"editor","aud":"agentd",}"#, Malformed),
        (r#"{"exp":1700000060,/**/"iss":"editor","aud":"agentd"}"#, Malformed),
        (&deep_audience, Malformed),
    ] {
        let shown: String = payload.chars().take(80).collect();
        assert_eq!(check(&sign(HEADER, payload)), Err(expected), "{shown}");
    }
    // A claim that is not checked may be nested to any depth: it is skipped without recursion.
    for depth in [1, 100, 200, 100_000] {
        assert!(matches!(check(&sign(HEADER, deep(depth))), Ok(()) | Err(Malformed)), "{depth}");
    }
    let megabyte = format!(
        r#"{{"iss":"editor","aud":"agentd","exp":1700000060,"x":"{}"}}"#,
        "x".repeat(1 << 20)
    );
    assert_eq!(check(&sign(HEADER, &megabyte)), Ok(()));
    assert_eq!(check(&"x".repeat(1 << 20)), Err(Malformed));
    assert_eq!(check(&"a.".repeat(1 << 19)), Err(Malformed));
    let unsigned = format!("{}.{}.{}", encode(HEADER), encode(&megabyte), encode([0; 32]));
    assert_eq!(check(&unsigned), Err(Signature));
}

#[test]
fn every_bit_of_a_good_token_counts() {
    let token = good();
    assert_eq!(check(&token), Ok(()));
    let mut looked_at = 0;
    for at in 0..token.len() {
        for bit in 0..8 {
            let mut bytes = token.clone().into_bytes();
            bytes[at] ^= 1u8 << bit;
            // HTTP passes on only text.
            let Ok(text) = String::from_utf8(bytes) else { continue };
            looked_at += 1;
            assert!(check(&text).is_err(), "bit {bit} of byte {at}: {text}");
        }
    }
    assert!(looked_at >= token.len() * 7);
}

proptest! {
    #[test]
    fn any_flipped_bit_invalidates_a_token(
        exp in NOW + 1..NOW + 100_000, text in "[ -~]{0,40}", at: usize, bit in 0u32..7,
    ) {
        let text = serde_json::to_string(&text).unwrap();
        let token = claiming(&format!("exp={exp};;jti={}", text.replace(";;", "")));
        prop_assume!(check(&token).is_ok());
        let mut bytes = token.into_bytes();
        let at = at % bytes.len();
        bytes[at] ^= 1u8 << bit;
        let flipped = String::from_utf8(bytes).unwrap();
        prop_assert!(check(&flipped).is_err(), "{}", flipped);
    }

    #[test]
    fn any_text_is_refused(text in ".{0,200}") {
        prop_assert!(check(&text).is_err());
    }

    #[test]
    fn any_parts_are_refused(parts in prop::collection::vec("[A-Za-z0-9_=-]{0,60}", 0..6)) {
        prop_assert!(check(&parts.join(".")).is_err());
    }

    #[test]
    fn any_signed_bytes_get_a_verdict(header: Vec<u8>, payload: Vec<u8>) {
        prop_assert!(check(&sign(header, &payload)).is_err());
        prop_assert!(check(&sign(HEADER, payload)).is_err());
    }

    #[test]
    fn any_signed_claims_get_a_verdict(
        payload in r#"\{("(exp|nbf|iss|aud)":(1700000060|"agentd"|\["agentd"\]|null|1e3),?){0,4}\}"#,
    ) {
        let claims = Claims { max_clock_skew: SKEW, ..Claims::default() };
        if verify(&sign(HEADER, &payload), SECRET, &claims, NOW).is_ok() {
            let read: serde_json::Value = serde_json::from_str(&payload).unwrap();
            prop_assert_eq!(&read["exp"], 1_700_000_060);
        }
    }

    #[test]
    fn a_token_of_another_secret_is_refused(secret in prop::collection::vec(any::<u8>(), 0..80)) {
        // HMAC pads short keys with zeros, so keys that differ only in trailing zeros are equal.
        let end = secret.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let expected = if secret[..end] == *SECRET { Ok(()) } else { Err(Signature) };
        prop_assert_eq!(verify(&good(), &secret, &claims(), NOW), expected);
    }
}
