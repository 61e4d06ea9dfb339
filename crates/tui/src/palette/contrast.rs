//! The contrast of two colours as WCAG 2 defines it, and the nearest colours that have enough of it.

/// Red, green and blue.
pub type Rgb = (u8, u8, u8);

/// Least contrast of text that is read (WCAG 2, level AA).
pub const MIN_CONTRAST: f64 = 4.5;

const BLACK: Rgb = (0, 0, 0);
const WHITE: Rgb = (255, 255, 255);
/// Steps from a colour to black or white that are tried.
const STEPS: u16 = 64;
/// The colours of the palette of 256 that are legible both on black and on white.
const LEGIBLE_ON_BOTH: [u8; 6] = [29, 63, 98, 131, 163, 243];

/// The contrast of two colours, from 1 to 21.
#[must_use]
pub fn contrast(a: Rgb, b: Rgb) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

fn luminance((r, g, b): Rgb) -> f64 {
    let linear = |value: u8| {
        let value = f64::from(value) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
}

/// Returns whether black is more legible on the background than white.
pub(super) fn is_light(background: Rgb) -> bool {
    opposite(background) == BLACK
}

/// Black or white, whichever is more legible on the background.
pub(super) fn opposite(background: Rgb) -> Rgb {
    if contrast(BLACK, background) >= contrast(WHITE, background) { BLACK } else { WHITE }
}

/// The nearest colour on the way to black or white that is legible on the background, as the terminal displays it.
pub(super) fn legible_on(color: Rgb, background: Rgb, displayed: impl Fn(Rgb) -> Rgb) -> Rgb {
    let end = opposite(background);
    let shades = (0..=STEPS).map(|step| displayed(mixed(color, end, step)));
    let mut legible = shades.filter(|shade| contrast(*shade, background) >= MIN_CONTRAST);
    // Either black or white has a contrast of 4.58 at least.
    legible.next().unwrap_or(end)
}

/// The nearest colour that is legible both on black and on white.
pub(super) fn legible_on_both(color: Rgb, is_indexed: bool) -> Rgb {
    if is_indexed {
        let near = LEGIBLE_ON_BOTH.map(indexed).into_iter();
        return near.min_by_key(|other| distance(color, *other)).unwrap_or(color);
    }
    let is_legible =
        |shade: &Rgb| contrast(*shade, BLACK).min(contrast(*shade, WHITE)) >= MIN_CONTRAST;
    let end = if contrast(color, BLACK) < contrast(color, WHITE) { WHITE } else { BLACK };
    let mut shades = (0..=STEPS).map(|step| mixed(color, end, step));
    shades.find(is_legible).unwrap_or(indexed(243))
}

/// `step` of 64 parts of the way from a colour to another one.
fn mixed(from: Rgb, to: Rgb, step: u16) -> Rgb {
    let part = |from: u8, to: u8| {
        let sum = u16::from(from) * (STEPS - step) + u16::from(to) * step;
        u8::try_from(sum / STEPS).unwrap_or(u8::MAX)
    };
    (part(from.0, to.0), part(from.1, to.1), part(from.2, to.2))
}

fn distance(a: Rgb, b: Rgb) -> u32 {
    let part = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
    part(a.0, b.0) + part(a.1, b.1) + part(a.2, b.2)
}

/// The colour of the palette of 256 that is displayed in the place of another one.
pub(super) fn quantized((r, g, b): Rgb) -> Rgb {
    indexed(nearest_of_256(r, g, b))
}

/// The usual value of a colour of the palette of 256. Of the first 16, those of xterm: users change them.
#[must_use]
pub fn indexed(color: u8) -> Rgb {
    const FIRST: [Rgb; 16] = [
        (0, 0, 0),
        (205, 0, 0),
        (0, 205, 0),
        (205, 205, 0),
        (0, 0, 238),
        (205, 0, 205),
        (0, 205, 205),
        (229, 229, 229),
        (127, 127, 127),
        (255, 0, 0),
        (0, 255, 0),
        (255, 255, 0),
        (92, 92, 255),
        (255, 0, 255),
        (0, 255, 255),
        (255, 255, 255),
    ];
    let level = |part: u8| if part == 0 { 0 } else { 55 + 40 * part };
    match color {
        0..16 => FIRST[usize::from(color)],
        16..232 => {
            let color = color - 16;
            (level(color / 36), level(color / 6 % 6), level(color % 6))
        }
        232.. => {
            let grey = 8 + 10 * (color - 232);
            (grey, grey, grey)
        }
    }
}

/// The nearest colour of the palette of 16.
pub(super) fn nearest_of_16((r, g, b): Rgb) -> u8 {
    let strongest = r.max(g).max(b);
    let weakest = r.min(g).min(b);
    if strongest - weakest < 48 {
        return match strongest {
            0..64 => 0,
            64..128 => 8,
            128..224 => 7,
            224.. => 15,
        };
    }
    let half = weakest + (strongest - weakest) / 2;
    let bit = |value: u8, bit: u8| if value > half { bit } else { 0 };
    let index = bit(r, 1) | bit(g, 2) | bit(b, 4);
    if strongest > 191 { index + 8 } else { index }
}

/// The nearest colour of the cube of 6 × 6 × 6, or of the 24 greys.
#[must_use]
pub(crate) fn nearest_of_256(r: u8, g: u8, b: u8) -> u8 {
    if r.abs_diff(g) < 8 && g.abs_diff(b) < 8 {
        return match r {
            0..8 => 16,
            239.. => 231,
            8..239 => 232 + (r - 8) / 10,
        };
    }
    let step = |value: u8| match value {
        0..48 => 0,
        48..115 => 1,
        115.. => (value - 35) / 40,
    };
    16 + 36 * step(r) + 6 * step(g) + step(b)
}
