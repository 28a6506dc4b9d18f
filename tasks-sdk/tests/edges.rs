//! What the compiler says about wrong edges is part of the interface.

#[test]
fn wrong_edges_do_not_compile_and_say_why() {
    trybuild::TestCases::new().compile_fail("tests/edges/*.rs");
}
