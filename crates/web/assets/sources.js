// What the composer offers to complete: files and skills, which the server knows, and the commands of the page.

export class Sources {
  #connection;
  #commands;
  #view = null;
  /** Promise of the skills of the open thread's folder. */
  #skills = null;

  /** `commands()`: the commands that can be used now, with `name`, `argument` and `what`. */
  constructor(connection, commands) {
    this.#connection = connection;
    this.#commands = commands;
  }

  open(view) {
    this.#view = view;
    this.#skills = null;
  }

  /** Files of skills have changed. */
  skillsChanged() {
    this.#skills = null;
  }

  /** The lists, by their signs. */
  get bySign() {
    return {
      "@": (text) => this.#files(text),
      "$": (text) => this.#skillRows(text),
      "/": (text) => this.#commandRows(text),
    };
  }

  /** The skills that a text names with `$NAME`, as inputs of a turn. */
  async skillsIn(text) {
    const names = new Set([...text.matchAll(/\$([\p{L}\p{N}_:-]+)/gu)].map(([, name]) => name));
    if (!names.size) return [];
    const skills = await this.#load();
    return skills.filter(({ name }) => names.has(name)).map(({ name, path }) => ({ type: "skill", name, path }));
  }

  async #files(query) {
    const { files } = await this.#connection.call("fuzzyFileSearch", {
      query, roots: [this.#view.folder], cancellationToken: "composer", // the next search ends this one
    });
    return files.map(({ path, indices, match_type: type }) => ({
      label: path, matches: indices, detail: type === "directory" ? "folder" : "",
      insert: /\s/.test(path) ? `"${path}"` : path, // it would end at the first space
    }));
  }

  async #skillRows(text) {
    const skills = await this.#load();
    const fits = ({ name }) => name.toLowerCase().includes(text.toLowerCase());
    return skills.filter(fits).map(({ name, description }) => ({ label: `$${name}`, detail: description, insert: `$${name}` }));
  }

  async #load() {
    const cwds = [this.#view.folder];
    this.#skills ??= this.#connection.call("skills/list", { cwds }).then(({ data }) => data.flatMap(({ skills }) => skills.filter(({ enabled }) => enabled)));
    try {
      return await this.#skills;
    } catch (error) {
      this.#skills = null;
      throw error;
    }
  }

  #commandRows(text) {
    const fitting = this.#commands().filter(({ name }) => name.startsWith(text));
    return fitting.map(({ name, argument, what }) => ({ label: `/${name}${argument ? ` ${argument}` : ""}`, detail: what, insert: `/${name}`, submits: !argument || text === name }));
  }
}
