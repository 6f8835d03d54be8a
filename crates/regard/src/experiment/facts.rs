//! Numbers and words that the text of the report uses. Each is a constant beside the experiment that states it, so that whoever
//! reads it cannot misspell it.

/// What a fact is called in `verdict.json`, and which experiment states it. `A` is what it is about, such as a model.
#[derive(Debug)]
pub struct Fact<A = ()> {
    experiment: &'static str,
    name: fn(A) -> String,
}

impl<A> Clone for Fact<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Fact<A> {}

impl<A> Fact<A> {
    /// A fact of an experiment.
    pub const fn new(experiment: &'static str, name: fn(A) -> String) -> Self {
        Self { experiment, name }
    }

    /// The fact about one thing.
    pub fn of(&self, about: A) -> Key {
        Key { experiment: self.experiment, name: (self.name)(about) }
    }
}

/// One fact of one experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The name of the experiment.
    pub experiment: &'static str,
    /// Its name in `verdict.json`.
    pub name: String,
}

impl From<Fact> for Key {
    fn from(fact: Fact) -> Self {
        fact.of(())
    }
}

/// Constants for facts: `facts! { "positions": LENGTH = "trained length"; pub RISE(name: Encoding) = "rise: {name}"; }`.
macro_rules! facts {
    ($experiment:literal: $($(#[$about:meta])* $visible:vis $key:ident $(($($argument:ident: $kind:ty),+))? = $text:literal;)*) => {
        $(
            $(#[$about])*
            #[allow(unused_parens)]
            $visible const $key: $crate::experiment::Fact<($($($kind),+)?)> =
                $crate::experiment::Fact::new($experiment, |($($($argument),+)?)| format!($text));
        )*
    };
}
pub(crate) use facts;

impl From<&str> for Key {
    fn from(name: &str) -> Self {
        Self { experiment: "", name: name.to_owned() }
    }
}

impl From<String> for Key {
    fn from(name: String) -> Self {
        Self { experiment: "", name }
    }
}
