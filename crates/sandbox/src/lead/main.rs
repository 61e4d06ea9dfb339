//! The program that prepares a command inside of its namespaces. Without libraries and relocations, so
//! that it starts fast. `build.rs` compiles it; the launcher starts it from memory.
#![no_std]
#![no_main]
#![allow(unsafe_code)]

mod steps;
mod syscalls;

use core::arch::global_asm;
use core::panic::PanicInfo;

#[cfg(target_arch = "x86_64")]
global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call start",
    "ud2",
);

#[cfg(target_arch = "aarch64")]
global_asm!(".globl _start", "_start:", "mov x29, #0", "mov x0, sp", "bl start", "brk #1");

/// Its name, and the two arguments that select these steps in the whole program.
const OWN_ARGUMENTS: usize = 3;

/// # Safety
/// `stack` is the initial stack of a program: the number of arguments, the arguments, a null pointer,
/// the environment, a null pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn start(stack: *const usize) -> ! {
    // SAFETY: the caller guarantees the layout.
    unsafe {
        let count = *stack;
        let arguments = stack.add(1).cast();
        let environment = stack.add(count + 2).cast();
        let code = match count {
            // Started only to test whether it can be.
            ..=OWN_ARGUMENTS => 0,
            _ => {
                let arguments = steps::Strings::new(arguments).skip(OWN_ARGUMENTS);
                steps::lead(arguments, environment);
                steps::NOT_STARTED
            }
        };
        syscalls::exit(code)
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    syscalls::exit(steps::NOT_STARTED)
}

// Functions that the compiler expects.

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, count: usize) -> *mut u8 {
    for at in 0..count {
        // SAFETY: the caller guarantees `count` bytes.
        #[allow(clippy::cast_possible_truncation, reason = "as in the C library")]
        unsafe {
            to.add(at).write_volatile(byte as u8);
        }
    }
    to
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    for at in 0..count {
        // SAFETY: the caller guarantees `count` bytes of each.
        unsafe { to.add(at).write_volatile(*from.add(at)) };
    }
    to
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    for at in 0..count {
        // SAFETY: the caller guarantees `count` bytes of each.
        let (one, other) = unsafe { (one.add(at).read_volatile(), other.add(at).read_volatile()) };
        if one != other {
            return i32::from(one) - i32::from(other);
        }
    }
    0
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    // SAFETY: the caller guarantees the same.
    unsafe { memcmp(one, other, count) }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(string: *const u8) -> usize {
    let mut length = 0;
    // SAFETY: the caller guarantees a null byte.
    while unsafe { string.add(length).read_volatile() } != 0 {
        length += 1;
    }
    length
}
