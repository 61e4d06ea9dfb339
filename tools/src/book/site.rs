//! Checks of the site as it was built: each page is there, and each link of a page leads to a file of the site
//! and to an anchor in it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use xtask::markdown::{is_external, resolve};

/// `pages` are relative to the site, with the extension `md`.
pub(super) fn check(site: &Path, pages: &[PathBuf]) -> Result<()> {
    let mut contents = HashMap::new();
    for page in pages {
        let page = page.with_extension("html");
        let html = std::fs::read_to_string(site.join(&page))
            .with_context(|| format!("the site has no {}: is it in SUMMARY.md?", page.display()))?;
        contents.insert(page, html);
    }
    let anchors: HashMap<&Path, HashSet<&str>> = contents
        .iter()
        .map(|(page, html)| (page.as_path(), attributes(main_part(html), "id").collect()))
        .collect();
    let mut broken = Vec::new();
    for (page, html) in &contents {
        let links = ["href", "src"].into_iter().flat_map(|name| attributes(main_part(html), name));
        for link in links.filter(|link| !is_external(link)) {
            let link = link.replace("&amp;", "&");
            let found = resolve(page, &link).is_some_and(|(to, anchor)| {
                let known = anchors.get(to.as_path());
                site.join(&to).is_file()
                    && anchor.is_none_or(|a| known.is_some_and(|known| known.contains(a.as_str())))
            });
            if !found {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    if !broken.is_empty() {
        broken.sort();
        bail!("{} links of the site lead nowhere:\n{}", broken.len(), broken.join("\n"));
    }
    Ok(())
}

/// The text of a page, without what surrounds it on each page.
fn main_part(html: &str) -> &str {
    let main = html.split_once("<main>").map_or("", |(_, rest)| rest);
    main.rsplit_once("</main>").map_or(main, |(main, _)| main)
}

/// The values of attributes. In text, a quotation mark before `>` would be needed to look like one.
fn attributes<'h>(html: &'h str, name: &str) -> impl Iterator<Item = &'h str> {
    let tags = html.split('<').skip(1).filter_map(|rest| Some(rest.split_once('>')?.0));
    let start = format!(" {name}=\"");
    tags.filter_map(move |tag| Some(tag.split_once(&start)?.1.split_once('"')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_pages_files_and_anchors_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let site = folder.path();
        let write = |file: &str, main: &str| {
            let text = format!("<a href=\"gone\"></a><main>{main}</main>");
            std::fs::write(site.join(file), text).unwrap();
        };
        write("a.html", "<h2 id=\"x\">X</h2><a class=\"l\" href=\"b.html#y\">b</a> href=\"c\"");
        write("b.html", "<h2 id=\"y\">Y</h2><img src=\"p.png\"><a href=\"https://x.test\"></a>");
        std::fs::write(site.join("p.png"), "").unwrap();
        let pages = ["a.md", "b.md"].map(PathBuf::from);
        check(site, &pages).unwrap();
        write("b.html", "<a href=\"a.html#z\"></a><a href=\"#w\"></a><a href=\"c.html\"></a>");
        let message = check(site, &pages).unwrap_err().to_string();
        let expected = "4 links of the site lead nowhere:\n\
                        a.html: b.html#y\nb.html: #w\nb.html: a.html#z\nb.html: c.html";
        assert_eq!(message, expected);
        let message = check(site, &["c.md".into()]).unwrap_err().to_string();
        assert!(message.contains("the site has no c.html"), "{message}");
    }
}
