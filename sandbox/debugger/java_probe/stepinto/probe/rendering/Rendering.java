package stepinto.probe.rendering;

import com.sun.jdi.*;
import java.util.*;
import stepinto.probe.program.TypeNames;
import stepinto.probe.rendering.Containers.Contents;
import stepinto.probe.rendering.Containers.Item;
import stepinto.probe.rendering.Containers.Shape;
import stepinto.probe.rendering.ValueText.Kind;
import stepinto.probe.wire.Limits;

/** The rendering of one value, what it holds included. */
final class Rendering {
    private final ValueText values;
    private final Limits limits;
    private final BoundedText text;
    private final Deque<ObjectReference> open = new ArrayDeque<>();

    Rendering(ValueText values, Limits limits, BoundedText text) {
        this.values = values;
        this.limits = limits;
        this.text = text;
    }

    /** Appends a value; if the text gets full, says how much is left. */
    void render(Value value) {
        try {
            put(value);
        } catch (BoundedText.Full cut) {
            text.leftOut();
        } catch (VMDisconnectedException gone) {
            throw gone;
        } catch (RuntimeException problem) {
            // An object that was collected meanwhile, or one that this JDK lays out otherwise.
            text.leftOut();
            try {
                text.putForeign("<can't be read: " + problem + ">");
            } catch (BoundedText.Full cut) {
                text.leftOut();
            }
        }
    }

    private void put(Value value) {
        if (value == null) {
            text.put("null");
        } else if (value instanceof CharValue) {
            text.put("'");
            text.putQuoted(((CharValue) value).value(), '\'');
            text.put("'");
        } else if (value instanceof VoidValue) {
            text.put("void");
        } else if (value instanceof PrimitiveValue) {
            text.put(value.toString());
        } else if (value instanceof StringReference) {
            quoted(JavaText.of((StringReference) value, values.heap));
        } else {
            object((ObjectReference) value);
        }
    }

    private void quoted(JavaText found) {
        text.put("\"");
        text.put(found, open.isEmpty(), '"');
        text.put("\"");
    }

    private void object(ObjectReference object) {
        if (open.contains(object)) {
            text.put("<" + name(object) + " itself>");
            return;
        }
        if (open.size() > limits.valueDepth) {
            text.leftOut();
            text.put("...");
            return;
        }
        boolean says = saysItself(object.referenceType());
        Contents contents = says ? null : values.containers.of(object);
        if (contents != null) {
            boolean map = contents.shape == Shape.MAP;
            text.put(map ? "{" : "[");
            inside(object, contents.size == 0, () -> items(contents));
            text.put(map ? "}" : "]");
        } else if (object instanceof ClassObjectReference) {
            text.put(TypeNames.simple(((ClassObjectReference) object).reflectedType().name()));
            text.put(".class");
        } else if (object instanceof ThreadReference) {
            text.putForeign("Thread \"" + ((ThreadReference) object).name() + "\"");
        } else {
            byKind(object, values.kind(object.referenceType()));
        }
    }

    /** Whether an object of the program's own has a {@code toString} of its own. */
    private boolean saysItself(ReferenceType type) {
        if (TypeNames.isPlatform(type.name()) || values.kind(type) != Kind.TEXT) {
            return false;
        }
        Method method =
                ((ClassType) type).concreteMethodByName("toString", "()Ljava/lang/String;");
        return !TypeNames.isPlatform(method.declaringType().name());
    }

    private void byKind(ObjectReference object, Kind kind) {
        Heap heap = values.heap;
        switch (kind) {
            case BOX:
                put(heap.value(object, "value"));
                break;
            case BUILDER:
                quoted(JavaText.ofBuilder(object, heap));
                break;
            case ENUM:
                StringReference name =
                        (StringReference) heap.value(object, "java.lang.Enum", "name");
                text.put(name.value());
                break;
            case LAMBDA:
                text.put("<lambda>");
                break;
            case ENTRY:
                nested(object, () -> pair(heap.value(object, "key"), heap.value(object, "value")));
                break;
            case OPTIONAL:
                Value held = heap.value(object, "value");
                text.put(held == null ? "Optional.empty" : "Optional[");
                if (held != null) {
                    nested(object, () -> put(held));
                    text.put("]");
                }
                break;
            case THROWABLE:
                text.put(name(object));
                int mark = text.mark();
                text.put(": ");
                if (!values.programText.putMessage(object, text)) {
                    text.reset(mark);
                }
                break;
            default:
                composed(object, kind);
        }
    }

    private void composed(ObjectReference object, Kind kind) {
        if (kind == Kind.FIELDS && TypeNames.isPlatform(object.referenceType().name())) {
            // The insides of the JDK's own objects tell little; `fields` shows them.
            boolean empty = Heap.instanceFields(object.referenceType()).isEmpty();
            text.put(name(object) + (empty ? "{}" : "{...}"));
            return;
        }
        if (kind != Kind.TEXT) {
            fields(object, kind == Kind.RECORD);
            return;
        }
        ProgramText program = values.programText;
        String obstacle = program.obstacle(object.referenceType());
        if (obstacle != null || !program.put(object, text, open.isEmpty())) {
            fields(object, false);
            text.putForeign(obstacle == null ? "" : " <its toString() " + obstacle + ">");
        }
    }

    /** Appends what is in an object, unless that lies too deep. */
    private void inside(ObjectReference object, boolean empty, Runnable work) {
        if (!empty && open.size() >= limits.valueDepth) {
            text.leftOut();
            text.put("...");
        } else {
            nested(object, work);
        }
    }

    private void items(Contents contents) {
        Iterator<Item> items = contents.from(0);
        int done = 0;
        for (; items.hasNext(); done++) {
            if (open.size() == 1) {
                text.tail(contents.size - done);
            }
            if (done == limits.valueItems) {
                text.leftOut();
                text.put(", " + BoundedText.more(contents.size - done));
                return;
            }
            text.put(done > 0 ? ", " : "");
            Item item = items.next();
            if (contents.shape == Shape.MAP) {
                pair(item.key, item.value);
            } else {
                put(contents.value(item));
            }
        }
    }

    private void pair(Value key, Value value) {
        put(key);
        text.put("=");
        put(value);
    }

    private void fields(ObjectReference object, boolean record) {
        List<Field> fields = Heap.instanceFields(object.referenceType());
        text.put(name(object) + (record ? "[" : "{"));
        inside(object, fields.isEmpty(), () -> {
            Map<Field, Value> read = object.getValues(fields);
            String before = "";
            for (Field field : fields) {
                text.put(before + field.name() + "=");
                put(read.get(field));
                before = ", ";
            }
        });
        text.put(record ? "]" : "}");
    }

    private void nested(ObjectReference object, Runnable work) {
        open.push(object);
        work.run();
        open.pop();
    }

    private static String name(ObjectReference object) {
        return TypeNames.simple(object.referenceType().name());
    }
}
