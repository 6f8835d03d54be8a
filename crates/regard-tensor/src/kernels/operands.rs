//! What entry points read, as it is or as copies that the CPU's kernels can read.

use crate::array::Array;
use crate::ids::{Ids, Mask};
use crate::storage::Device;

/// Arrays, ids, masks, and values made of them.
pub(crate) trait Operand: Sized + 'static {
    /// Where a kernel that reads it should run. Ids and masks are copied to wherever they are needed.
    fn device(&self) -> Device {
        Device::Cpu
    }

    /// Whether the CPU's kernels can read all of it where it is.
    fn is_ready(&self) -> bool;

    /// The same, as they can read it.
    fn to_host(&self) -> Self;
}

impl Operand for Array {
    fn device(&self) -> Device {
        self.device()
    }

    fn is_ready(&self) -> bool {
        self.is_ready()
    }

    fn to_host(&self) -> Self {
        self.to_host()
    }
}

impl Operand for Ids {
    fn is_ready(&self) -> bool {
        self.is_ready()
    }

    fn to_host(&self) -> Self {
        self.to_host()
    }
}

impl Operand for Mask {
    fn is_ready(&self) -> bool {
        self.is_ready()
    }

    fn to_host(&self) -> Self {
        self.to_host()
    }
}

/// [`Operand`] for a struct of arrays, field by field; the first says where it is.
macro_rules! operand {
    ($name:ident { $first:ident $(, $field:ident)* }) => {
        impl $crate::kernels::operands::Operand for $name {
            fn device(&self) -> $crate::storage::Device {
                self.$first.device()
            }

            fn is_ready(&self) -> bool {
                self.$first.is_ready() $(&& self.$field.is_ready())*
            }

            fn to_host(&self) -> Self {
                Self { $first: self.$first.to_host() $(, $field: self.$field.to_host())* }
            }
        }
    };
}

pub(crate) use operand;

/// References to operands, as an entry point has them.
pub(crate) trait Operands {
    /// Copies that the CPU's kernels can read.
    type Copies;
    /// The operands as a kernel gets them, borrowed from the caller or from copies.
    type Borrowed<'a>;

    /// The device of the first.
    fn device(&self) -> Device;
    fn are_ready(&self) -> bool;
    fn direct(&self) -> Self::Borrowed<'_>;
    fn copies(&self) -> Self::Copies;
    fn borrow(copies: &Self::Copies) -> Self::Borrowed<'_>;
}

impl<T: Operand> Operands for &T {
    type Copies = T;
    type Borrowed<'a> = &'a T;

    fn device(&self) -> Device {
        T::device(self)
    }

    fn are_ready(&self) -> bool {
        self.is_ready()
    }

    fn direct(&self) -> &T {
        self
    }

    fn copies(&self) -> T {
        self.to_host()
    }

    fn borrow(copies: &T) -> &T {
        copies
    }
}

impl<T: Operand> Operands for Option<&T> {
    type Copies = Option<T>;
    type Borrowed<'a> = Option<&'a T>;

    fn device(&self) -> Device {
        self.map_or(Device::Cpu, T::device)
    }

    fn are_ready(&self) -> bool {
        self.is_none_or(T::is_ready)
    }

    fn direct(&self) -> Option<&T> {
        *self
    }

    fn copies(&self) -> Option<T> {
        self.map(T::to_host)
    }

    fn borrow(copies: &Option<T>) -> Option<&T> {
        copies.as_ref()
    }
}

impl<T: Operand> Operands for &[T] {
    type Copies = Vec<T>;
    type Borrowed<'a> = &'a [T];

    fn device(&self) -> Device {
        self.first().map_or(Device::Cpu, T::device)
    }

    fn are_ready(&self) -> bool {
        self.iter().all(T::is_ready)
    }

    fn direct(&self) -> &[T] {
        self
    }

    fn copies(&self) -> Vec<T> {
        self.iter().map(T::to_host).collect()
    }

    fn borrow(copies: &Vec<T>) -> &[T] {
        copies
    }
}

impl<T: Operand> Operands for Vec<&T> {
    type Copies = Vec<T>;
    type Borrowed<'a> = Vec<&'a T>;

    fn device(&self) -> Device {
        self.first().map_or(Device::Cpu, Operands::device)
    }

    fn are_ready(&self) -> bool {
        self.iter().all(|one| one.is_ready())
    }

    fn direct(&self) -> Vec<&T> {
        self.clone()
    }

    fn copies(&self) -> Vec<T> {
        self.iter().map(|one| one.to_host()).collect()
    }

    fn borrow(copies: &Vec<T>) -> Vec<&T> {
        copies.iter().collect()
    }
}

macro_rules! tuples {
    ($($first:ident $($letter:ident)*;)*) => {$(
        #[allow(non_snake_case, reason = "a letter names both a type and its value")]
        impl<$first: Operands, $($letter: Operands),*> Operands for ($first, $($letter),*) {
            type Copies = ($first::Copies, $($letter::Copies),*);
            type Borrowed<'a> = ($first::Borrowed<'a>, $($letter::Borrowed<'a>),*);

            fn device(&self) -> Device {
                self.0.device()
            }

            fn are_ready(&self) -> bool {
                let ($first, $($letter),*) = self;
                $first.are_ready() $(&& $letter.are_ready())*
            }

            fn direct(&self) -> Self::Borrowed<'_> {
                let ($first, $($letter),*) = self;
                ($first.direct(), $($letter.direct()),*)
            }

            fn copies(&self) -> Self::Copies {
                let ($first, $($letter),*) = self;
                ($first.copies(), $($letter.copies()),*)
            }

            fn borrow(copies: &Self::Copies) -> Self::Borrowed<'_> {
                let ($first, $($letter),*) = copies;
                ($first::borrow($first), $($letter::borrow($letter)),*)
            }
        }
    )*};
}

tuples! {
    A B;
    A B C;
    A B C D;
}
