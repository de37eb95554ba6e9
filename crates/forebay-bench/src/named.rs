//! Enumerations whose values have names in the rows.

/// Declares an enumeration whose values have names in the rows.
macro_rules! named {
    (
        $(#[$about:meta])*
        pub enum $name:ident { $($(#[$more:meta])* $value:ident = $text:literal,)* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$more])* $value,)*
        }

        impl $name {
            #[allow(dead_code, reason = "not every suite goes through all values")]
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$value),*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
pub(crate) use named;
