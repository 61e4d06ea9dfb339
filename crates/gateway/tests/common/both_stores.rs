//! Scenarios that must go the same way whatever the store is.

/// Each scenario on a file of its own, and all of them on databases of one server. Who uses it has
/// `servers` and `node::Node`.
macro_rules! on_both_stores {
    ($($name:ident),* $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name(&super::Node::sqlite().await).await;
            })*
        }

        #[tokio::test]
        async fn on_postgres() {
            let server = servers::Postgres::start();
            $($name(&Node::postgres(&server.url(), stringify!($name)).await).await;)*
        }
    };
}
