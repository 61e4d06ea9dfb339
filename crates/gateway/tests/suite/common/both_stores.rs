//! Runs scenarios on both kinds of store.

/// Creates a test per scenario on a SQLite file of its own, and one test of all of them on
/// databases of one PostgreSQL server. The caller must have `Node` in scope.
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
            let server = $crate::common::servers::Postgres::start();
            $($name(&Node::postgres(&server.url(), stringify!($name)).await).await;)*
        }
    };
}

pub(crate) use on_both_stores;
