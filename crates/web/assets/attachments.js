// Images of a message: taken by paste, by drop, or from the machine of the browser, and shown until it is sent.

import { $, announce, button, el, notice } from "./dom.js";
import { visible } from "./text.js";

/** Bounds of the server: of one image, of all together as base64, and their number. */
const MOST_BYTES = 20 * 1024 * 1024;
const MOST_CHARACTERS = 48 * 1024 * 1024;
const MOST_IMAGES = 100;

export class Attachments {
  /** `name` and `url`, a `data:` address, of each image. */
  #images = [];

  /** `field` takes what is pasted, `place` what is dropped; `onChange()` is called after each change. */
  constructor(field, place, onChange) {
    this.onChange = onChange;
    field.addEventListener("paste", (event) => {
      const { files } = event.clipboardData;
      if (!files.length) return;
      event.preventDefault();
      this.add(files);
    });
    $("image-add").addEventListener("click", () => $("image-file").click());
    $("image-file").addEventListener("change", () => {
      this.add($("image-file").files);
      $("image-file").value = ""; // the same file can be chosen again
    });
    const holdsFiles = (event) => !$("composer").hidden && event.dataTransfer?.types.includes("Files");
    for (const name of ["dragenter", "dragover"]) {
      place.addEventListener(name, (event) => {
        if (!holdsFiles(event)) return;
        event.preventDefault();
        place.classList.add("drop");
      });
    }
    place.addEventListener("dragleave", (event) => place.contains(event.relatedTarget) || place.classList.remove("drop"));
    place.addEventListener("drop", (event) => {
      place.classList.remove("drop");
      if (!holdsFiles(event)) return;
      event.preventDefault();
      this.add(event.dataTransfer.files);
    });
  }

  get images() {
    return this.#images;
  }

  /** The inputs of a turn. */
  get inputs() {
    return this.#images.map(({ url }) => ({ type: "image", url }));
  }

  /** Shows other images: those of another thread, those of a message that is edited, or none. */
  set(images) {
    this.#images = images;
    this.#show();
  }

  /** Adds files; those that are none or too much are refused with a reason. */
  async add(files) {
    notice("");
    const refused = [];
    for (const file of files) {
      const why = await this.#take(file);
      if (why) refused.push(`${visible(file.name)}: ${why}`);
    }
    if (refused.length) notice(`Not added: ${refused.join("; ")}`);
    this.#show();
    announce(`${this.#images.length} ${this.#images.length === 1 ? "image is" : "images are"} in the message.`);
    $("message").focus();
  }

  async #take(file) {
    if (!file.type.startsWith("image/")) return "only images can be added. Name other files with @ or by their paths";
    if (file.size > MOST_BYTES) return `an image has at most ${MOST_BYTES >> 20} MiB`;
    if (this.#images.length === MOST_IMAGES) return `a message has at most ${MOST_IMAGES} images`;
    const used = this.#images.reduce((sum, { url }) => sum + url.length, 0);
    if (used + (file.size * 4) / 3 > MOST_CHARACTERS) return "the images of this message are too large together";
    let url;
    try {
      url = await dataUrl(file);
    } catch (error) {
      return error.message;
    }
    this.#images = [...this.#images, { name: file.name || "image", url }];
    return null;
  }

  #show() {
    $("images").replaceChildren(...this.#images.map((image) => this.#thumbnail(image)));
    $("images").hidden = !this.#images.length;
    this.onChange();
  }

  #thumbnail(image) {
    const name = visible(image.name);
    const remove = () => {
      this.set(this.#images.filter((other) => other !== image));
      $("message").focus();
    };
    return el("li", {}, el("img", { src: image.url, alt: name }), button("Remove", remove, { "aria-label": `Remove ${name}` }));
  }
}

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
